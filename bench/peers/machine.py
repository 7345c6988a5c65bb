"""The machine of a figure: the processor, the versions, and the other load on it."""

import importlib.metadata
import os
import platform
import sys
import time

PACKAGES = ("llama-cpp-python", "gguf", "numpy", "torch", "ctranslate2", "onnxruntime",
            "onnxruntime-genai", "openvino", "openvino-genai", "transformers")
CLOCK_HZ = os.sysconf("SC_CLK_TCK")


def processor():
    with open("/proc/cpuinfo") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def description():
    versions = {name: version(name) for name in PACKAGES if version(name)}
    command = " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]])
    return {"processor": processor(), "system": platform.platform(),
            "python": platform.python_version(), "packages": versions,
            "date": time.strftime("%Y-%m-%d %H:%M"), "command": command}


def busy_seconds():
    """Busy seconds of all processors since the machine started, time stolen by other guests included."""
    with open("/proc/stat") as lines:
        user, nice, system, _, _, irq, soft_irq, steal = map(int, next(lines).split()[1:9])
    return (user + nice + system + irq + soft_irq + steal) / CLOCK_HZ


def own_seconds(processes):
    """Processor time of this process and of those of `processes` that have not ended."""
    used = sum(os.times()[:2])
    for process in processes:
        try:
            with open(f"/proc/{process}/stat") as line:
                fields = line.read().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        used += (int(fields[11]) + int(fields[12])) / CLOCK_HZ
    return used


class OtherLoad:
    """How many processors were busy, on average, with other processes."""

    def __init__(self, processes):
        self.processes = processes
        self.start = time.perf_counter(), busy_seconds(), own_seconds(processes)

    def value(self):
        wall, busy, own = self.start
        others = busy_seconds() - busy - (own_seconds(self.processes) - own)
        return max(0.0, others / (time.perf_counter() - wall))
