// Files and the tensors in them.
#include <decant/files/detail/gguf.hpp>
#include <decant/files/detail/hash.hpp>
#include <decant/files/detail/mapped_file.hpp>
#include <decant/files/detail/new_file.hpp>
#include <decant/files/detail/safetensors.hpp>
#include <decant/files/detail/sealed_tensors.hpp>
#include <decant/files/detail/tensor_files.hpp>
