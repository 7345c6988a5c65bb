// decant/checkpoints/detail/load_adapter.hpp - definition of checkpoints/load_adapter.hpp.
//
// Tested by   tests/checkpoints/adapter_test.cpp, tests/checkpoints/malformed_adapter_test.cpp
#pragma once

#include <decant/attention/rope.hpp>
#include <decant/checkpoints/detail/peft_config.hpp>
#include <decant/checkpoints/load_adapter.hpp>
#include <decant/core/error.hpp>
#include <decant/core/types.hpp>
#include <decant/files/mapped_file.hpp>
#include <decant/files/safetensors.hpp>
#include <decant/files/tensor.hpp>
#include <decant/files/utf8.hpp>
#include <decant/kernels/matrix_view.hpp>
#include <decant/model/adapter.hpp>
#include <decant/model/config.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace decant::inline DECANT_ABI::checkpoints {

namespace detail {

struct AdaptedModule {
  std::string_view name;
  model::Projection projection;
};
inline constexpr std::array kAdaptedModules = {
    AdaptedModule{"self_attn.q_proj", model::Projection::query},
    AdaptedModule{"self_attn.k_proj", model::Projection::key},
    AdaptedModule{"self_attn.v_proj", model::Projection::value},
    AdaptedModule{"self_attn.o_proj", model::Projection::attention_output},
    AdaptedModule{"mlp.gate_proj", model::Projection::gate},
    AdaptedModule{"mlp.up_proj", model::Projection::up},
    AdaptedModule{"mlp.down_proj", model::Projection::down},
    AdaptedModule{"attn.c_attn", model::Projection::qkv},  // GPT-2
    AdaptedModule{"attn.c_proj", model::Projection::attention_output},
    AdaptedModule{"mlp.c_fc", model::Projection::up},
    AdaptedModule{"mlp.c_proj", model::Projection::down},
};

inline constexpr std::string_view kAdapterRoot = "base_model.model.";
inline constexpr std::string_view kAdapterA = ".lora_A.weight";
inline constexpr std::string_view kAdapterB = ".lora_B.weight";

// The layer and the projection of a module, such as model.layers.3.self_attn.q_proj; nothing if it
// is no projection of a layer.
inline std::optional<model::LowRankChange> change_of(std::string_view module) {
  const auto drop = [&](std::string_view prefix) {
    const bool had = module.starts_with(prefix);
    if (had) module.remove_prefix(prefix.size());
    return had;
  };
  static_cast<void>(drop("model.") || drop("transformer."));
  if (!drop("layers.") && !drop("h.")) return std::nullopt;
  model::LowRankChange change;
  const auto [rest, error] =
      std::from_chars(module.data(), module.data() + module.size(), change.layer);
  if (error != std::errc() || change.layer < 0) return std::nullopt;
  module.remove_prefix(static_cast<std::size_t>(rest - module.data()));
  if (!drop(".")) return std::nullopt;
  const auto found = std::ranges::find(kAdaptedModules, module, &AdaptedModule::name);
  if (found == kAdaptedModules.end()) return std::nullopt;
  change.projection = found->projection;
  return change;
}

// The tensors of an adapter: an A and a B for each change.
class AdapterReader {
 public:
  AdapterReader(const files::Safetensors& file, const PeftConfig& config)
      : file_(file), config_(config) {}

  // Errors   FormatError naming file and tensor
  std::vector<model::LowRankChange> changes() {
    std::vector<model::LowRankChange> changes;
    for (const auto& [name, tensor] : file_.tensors()) {
      const bool a = name.ends_with(kAdapterA);
      const std::string_view end = a ? kAdapterA : kAdapterB;
      const bool named = name.starts_with(kAdapterRoot) && name.ends_with(end) &&
                         name.size() > kAdapterRoot.size() + end.size();
      const std::string_view module =
          named ? std::string_view(name).substr(kAdapterRoot.size(),
                                                name.size() - kAdapterRoot.size() - end.size())
                : std::string_view();
      const std::optional<model::LowRankChange> change = change_of(module);
      expects<FormatError>(change.has_value(), file_.name(), ": unexpected tensor ",
                           files::printable(name));
      if (a)
        changes.push_back(read(*change, std::string(module)));
      else
        static_cast<void>(matrix(std::string(module), kAdapterA));  // every B has its A
    }
    check_targets();
    return changes;
  }

 private:
  model::LowRankChange read(model::LowRankChange change, const std::string& module) {
    change.a = matrix(module, kAdapterA);
    change.b = matrix(module, kAdapterB);
    const double rank = number_of(config_.rank, module, config_.file);
    expects<FormatError>(static_cast<double>(change.a.rows) == rank, file_.name(), ": tensor ",
                         kAdapterRoot, module, kAdapterA, " has rank ", change.a.rows,
                         ", and its configuration says ", rank);
    const double alpha = number_of(config_.alpha, module, config_.file);
    change.scale = static_cast<float>(alpha / (config_.rank_stabilised ? std::sqrt(rank) : rank));
    modules_.push_back(module);
    return change;
  }

  kernels::MatrixView matrix(const std::string& module, std::string_view end) const {
    const std::string name = sentence(kAdapterRoot, module, end);
    const auto found = file_.tensors().find(name);
    expects<FormatError>(found != file_.tensors().end(), file_.name(), ": tensor ",
                         files::printable(name), " is absent");
    const files::Tensor& tensor = found->second;
    expects<FormatError>(tensor.shape.size() == 2, file_.name(), ": tensor ",
                         files::printable(name), " has shape ", files::shape_text(tensor.shape),
                         ", not that of a matrix");
    expects<FormatError>(tensor.dtype->codec.has_value(), file_.name(), ": tensor ",
                         files::printable(name), " is ", tensor.dtype->name,
                         ", which an adapter cannot be (F32, BF16, F16)");
    return kernels::row_major(tensor.data.data(), *tensor.dtype->codec, tensor.shape[0],
                              tensor.shape[1]);
  }

  // Whether every target is in the file: a target of which nothing was saved is one that this
  // reader would not have known.
  void check_targets() const {
    for (const std::string& target : config_.targets) {
      const auto is_target = [&](const std::string& module) {
        return names_module(module, target);
      };
      expects<FormatError>(std::ranges::any_of(modules_, is_target), config_.file,
                           ": target_modules names ", files::printable(target),
                           ", of which the file has no tensor");
    }
  }

  const files::Safetensors& file_;
  const PeftConfig& config_;
  std::vector<std::string> modules_;
};

// Refuses changes of queries and keys whose rows the model has in another order.
inline void check_row_order(const std::vector<model::LowRankChange>& changes,
                            const model::Config& config, std::string_view file) {
  const bool reordered = config.rope && config.rope->pairing == attention::Pairing::interleaved;
  for (const model::LowRankChange& change : changes) {
    const bool rotated = change.projection == model::Projection::query ||
                         change.projection == model::Projection::key;
    expects<FormatError>(!reordered || !rotated, file,
                         ": changes queries and keys, whose rows a model with interleaved rotary "
                         "pairs has in another order (load the checkpoint from safetensors)");
  }
}

}  // namespace detail

DECANT_IO_INLINE std::shared_ptr<const model::Adapter> load_adapter(
    const std::filesystem::path& folder, const model::Config& config) {
  const files::MappedFile settings(folder / "adapter_config.json");
  const detail::PeftConfig peft =
      detail::parse_peft_config(settings.text(), files::printable_path(settings.path()));
  const files::Safetensors file = files::Safetensors::open(folder / "adapter_model.safetensors");
  const std::vector<model::LowRankChange> changes = detail::AdapterReader(file, peft).changes();
  detail::check_row_order(changes, config, file.name());
  try {
    return std::make_shared<const model::Adapter>(config, changes);
  } catch (const std::invalid_argument& error) {
    throw FormatError(sentence(file.name(), ": does not fit the model: ", error.what()));
  }
}

}  // namespace decant::inline DECANT_ABI::checkpoints
