// A model described in Tessera's words, written as the config.json that its family would have.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "families/switches.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

// How a family spells the sizes, and which choices it leaves open.
struct Dialect {
  const char* num_layers = "num_hidden_layers";
  const char* num_heads = "num_attention_heads";
  const char* hidden_size = "hidden_size";
  const char* ffn_size = "intermediate_size";
  const char* max_context_tokens = "max_position_embeddings";
  bool gated = true;
  bool grouped_kv = true;  ///< num_kv_heads and head_dim are fields of their own
  bool experts = false;
  bool window = false;
};

Dialect gpt_dialect() {
  Dialect dialect{.num_layers = "n_layer", .num_heads = "n_head", .hidden_size = "n_embd"};
  dialect.ffn_size = "n_inner";
  dialect.max_context_tokens = "n_positions";
  dialect.gated = dialect.grouped_kv = false;
  return dialect;
}

const std::map<std::string, Dialect>& dialects() {
  static const std::map<std::string, Dialect> all = {
      {"bloom",
       {.num_layers = "n_layer",
        .num_heads = "n_head",
        .ffn_size = "n_inner",
        .max_context_tokens = "seq_length",
        .gated = false,
        .grouped_kv = false}},
      {"falcon", {.ffn_size = "ffn_hidden_size", .gated = false, .grouped_kv = false}},
      {"gemma2", {.window = true}},
      {"gemma3", {.window = true}},
      {"gpt2", gpt_dialect()},
      {"gptj", gpt_dialect()},
      {"llama", {}},
      {"mistral", {.window = true}},
      {"mixtral", {.experts = true, .window = true}},
      {"opt", {.ffn_size = "ffn_dim", .gated = false, .grouped_kv = false}},
      {"qwen2", {.window = true}},
      {"qwen3", {.window = true}},
      {"qwen3_moe", {.ffn_size = "moe_intermediate_size", .experts = true}},
  };
  return all;
}

// Families of switches spell their sizes as Llama does; what experts need, a spec has no words for.
std::optional<Dialect> dialect_of(const std::string& family) {
  if (const auto found = dialects().find(family); found != dialects().end()) return found->second;
  const hf::Switches* switches = hf::find_switches(family);
  if (switches == nullptr || switches->experts.total != nullptr) return std::nullopt;
  Dialect dialect;
  dialect.gated = switches->gated;
  dialect.window = switches->windows.key != nullptr;
  return dialect;
}

[[noreturn]] void refuse_spec(const char* field, const std::string& problem,
                              ErrorCode code = ErrorCode::invalid_argument) {
  const std::string where = std::string("model.") + field;
  refuse(code, where, problem);
}

void check_range(const char* field, std::int64_t value, SizeRange range) {
  if (value < range.low || value > range.high) {
    refuse_spec(field, fmt::format("{} is outside [{}, {}]", value, range.low, range.high),
                ErrorCode::out_of_range);
  }
}

void check_sizes(const ModelSpec& spec) {
  check_range("num_layers", spec.num_layers, kLayersRange);
  check_range("hidden_size", spec.hidden_size, kSizeRange);
  check_range("num_heads", spec.num_heads, kHeadsRange);
  check_range("ffn_size", spec.ffn_size, kSizeRange);
  check_range("vocab_size", spec.vocab_size, kVocabRange);
  check_range("max_context_tokens", spec.max_context_tokens, kTokensRange);
  if (spec.num_kv_heads) check_range("num_kv_heads", *spec.num_kv_heads, {1, spec.num_heads});
  if (spec.num_kv_heads && spec.num_heads % *spec.num_kv_heads != 0) {
    refuse_spec("num_kv_heads", fmt::format("{} attention heads do not split evenly over {}",
                                            spec.num_heads, *spec.num_kv_heads));
  }
  if (spec.head_dim) check_range("head_dim", *spec.head_dim, kHeadDimRange);
  if (spec.attention_window) check_range("attention_window", *spec.attention_window, kTokensRange);
  if (spec.num_experts) check_range("num_experts", *spec.num_experts, kExpertsRange);
  if (spec.num_active_experts) {
    check_range("num_active_experts", *spec.num_active_experts,
                {1, spec.num_experts.value_or(kExpertsRange.high)});
  }
}

void check_conventions(const ModelSpec& spec, const Dialect& dialect) {
  const std::string& family = spec.family;
  if (spec.gated_ffn && *spec.gated_ffn != dialect.gated) {
    refuse_spec("gated_ffn", fmt::format("the feed-forward network of {} is {}gated", family,
                                         dialect.gated ? "" : "not "));
  }
  const bool splits = spec.hidden_size % spec.num_heads == 0;
  if (!splits && (!dialect.grouped_kv || !spec.head_dim)) {
    refuse_spec("num_heads", fmt::format("hidden_size {} is not a multiple of {} heads{}",
                                         spec.hidden_size, spec.num_heads,
                                         dialect.grouped_kv ? ", and head_dim is not given" : ""));
  }
  if (!dialect.grouped_kv && spec.head_dim && *spec.head_dim != spec.hidden_size / spec.num_heads)
    refuse_spec("head_dim", fmt::format("always hidden_size / num_heads in {}", family));
  if (!dialect.grouped_kv && family != "falcon" && spec.num_kv_heads &&
      *spec.num_kv_heads != spec.num_heads) {
    refuse_spec("num_kv_heads", fmt::format("always num_heads in {}", family));
  }
  if (family == "bloom" && spec.ffn_size != 4 * spec.hidden_size)
    refuse_spec("ffn_size", "always 4 x hidden_size in bloom");
  if (!dialect.window && spec.attention_window)
    refuse_spec("attention_window", fmt::format("{} has no sliding-window layers", family));
  if (dialect.experts != spec.num_experts.has_value() ||
      dialect.experts != spec.num_active_experts.has_value()) {
    refuse_spec("num_experts", dialect.experts
                                   ? family + " needs num_experts and num_active_experts"
                                   : family + " has no experts");
  }
}

void write_heads(const ModelSpec& spec, const Dialect& dialect, Json& config) {
  if (dialect.grouped_kv) {
    // Written even when absent, so that the default is the plain one rather than that of some
    // published model.
    config["num_key_value_heads"] = spec.num_kv_heads.value_or(spec.num_heads);
    config["head_dim"] = spec.head_dim.value_or(spec.hidden_size / spec.num_heads);
  } else if (spec.family == "falcon" && spec.num_kv_heads) {
    // One head is multi-query attention with one shared norm (7B); groups come with the new
    // architecture and its two norms (40B).
    const bool grouped = *spec.num_kv_heads > 1 && *spec.num_kv_heads < spec.num_heads;
    config["multi_query"] = *spec.num_kv_heads == 1;
    config["new_decoder_architecture"] = grouped;
    if (grouped) config["num_kv_heads"] = *spec.num_kv_heads;
  }
}

void write_window(const ModelSpec& spec, Json& config) {
  const bool qwen = spec.family == "qwen2" || spec.family == "qwen3";
  if (spec.attention_window) {
    config["sliding_window"] = *spec.attention_window;
    if (qwen) {
      config["use_sliding_window"] = true;
      config["max_window_layers"] = 0;
    }
  } else if (!spec.family.starts_with("gemma") && hf::find_switches(spec.family) != nullptr) {
    config["sliding_window"] = nullptr;
  }
}

void write_experts(const ModelSpec& spec, Json& config) {
  config[spec.family == "mixtral" ? "num_local_experts" : "num_experts"] = *spec.num_experts;
  config["num_experts_per_tok"] = *spec.num_active_experts;
  // Qwen3-MoE also reads the width of dense layers, of which a spec has none.
  if (spec.family == "qwen3_moe") config["intermediate_size"] = spec.ffn_size;
}

}  // namespace

ModelShape model_from_spec(const ModelSpec& spec) {
  const std::optional<Dialect> found = dialect_of(spec.family);
  if (!found) {
    const auto known = known_model_families();
    if (std::find(known.begin(), known.end(), spec.family) != known.end()) {
      refuse_spec("family",
                  spec.family + " has sizes that these do not say; give its config.json instead",
                  ErrorCode::unsupported);
    }
    refuse_spec("family",
                fmt::format("{} is not a known family{}; `tessera help families` lists the known "
                            "families",
                            quote(spec.family), did_you_mean(spec.family, known)),
                ErrorCode::unsupported);
  }
  const Dialect& dialect = *found;
  check_sizes(spec);
  check_conventions(spec, dialect);

  Json config;
  config["model_type"] = spec.family == "gemma3" ? "gemma3_text" : spec.family;
  config[dialect.num_layers] = spec.num_layers;
  config[dialect.hidden_size] = spec.hidden_size;
  config[dialect.num_heads] = spec.num_heads;
  config[dialect.ffn_size] = spec.ffn_size;
  config["vocab_size"] = spec.vocab_size;
  config[dialect.max_context_tokens] = spec.max_context_tokens;
  if (spec.tied_embeddings) config["tie_word_embeddings"] = *spec.tied_embeddings;
  write_heads(spec, dialect, config);
  write_window(spec, config);
  if (dialect.experts) write_experts(spec, config);

  const std::string name = spec.name.empty() ? spec.family : spec.name;
  ModelShape model = model_from_hf_config(config, name, "model");
  model.source = "described as a model of family " + spec.family;
  return model;
}

}  // namespace tessera
