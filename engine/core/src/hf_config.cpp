// From a Hugging Face config.json to the reader of its family, or to a refusal that says why.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "families/family.h"
#include "families/switches.h"
#include "families/towers.h"
#include "tessera/core/model_id.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

struct Family {
  const char* name;
  const char* class_prefix;  ///< of the classes in `architectures`: "Llama" for LlamaForCausalLM
  bool mixture_of_experts;
  /// nullptr: a row of switches.cpp says what its layers are.
  void (*read)(hf::Config& config, ModelShape& model) = nullptr;
  bool latent = false;  ///< its reader knows multi-head latent attention
};

// Sorted by name.
constexpr Family kFamilies[] = {
    {"afmoe", "Afmoe", true},
    {"apertus", "Apertus", false},
    {"arcee", "Arcee", false},
    {"baichuan", "Baichuan", false},
    {"bailing_moe", "BailingMoe", true},
    {"bailing_moe_v2", "BailingMoeV2", true},
    {"bamba", "Bamba", false, hf::read_bamba},
    {"bitnet", "BitNet", false},
    {"bloom", "Bloom", false, hf::read_bloom},
    {"chatglm", "ChatGLM", false, hf::read_chatglm},
    {"codegen", "CodeGen", false, hf::read_gptj},
    {"cohere", "Cohere", false},
    {"cohere2", "Cohere2", false},
    {"cohere2_moe", "Cohere2Moe", true},
    {"cwm", "Cwm", false},
    {"dbrx", "Dbrx", true, hf::read_dbrx},
    {"deepseek", "Deepseek", true},
    {"deepseek_v2", "DeepseekV2", true, hf::read_deepseek_v2, true},
    {"deepseek_v3", "DeepseekV3", true, hf::read_deepseek_v3, true},
    {"deepseek_v32", "DeepseekV32", true, hf::read_deepseek_v32, true},
    {"deepseek_v4", "DeepseekV4", true, hf::read_deepseek_v4, true},
    {"dots1", "Dots1", true},
    {"ernie4_5", "Ernie4_5", false},
    {"ernie4_5_moe", "Ernie4_5_Moe", true},
    {"exaone", "Exaone", false},
    {"exaone4", "Exaone4", false},
    {"exaone_moe", "ExaoneMoE", true},
    {"falcon", "Falcon", false, hf::read_falcon},
    {"falcon_h1", "FalconH1", false, hf::read_falcon_h1},
    {"falcon_mamba", "FalconMamba", false, hf::read_falcon_mamba},
    {"flex_olmo", "FlexOlmo", true},
    {"gemma", "Gemma", false},
    {"gemma2", "Gemma2", false},
    {"gemma3", "Gemma3", false, hf::read_gemma3},
    {"gemma3n", "Gemma3n", false, hf::read_gemma3n},
    {"gemma4", "Gemma4", true, hf::read_gemma4},
    {"glm", "Glm", false},
    {"glm4", "Glm4", false},
    {"glm4_moe", "Glm4Moe", true, hf::read_glm4_moe},
    {"glm4_moe_lite", "Glm4MoeLite", true, hf::read_glm4_moe_lite, true},
    {"glm_moe_dsa", "GlmMoeDsa", true, hf::read_glm_moe_dsa, true},
    {"gpt2", "GPT2", false, hf::read_gpt2},
    {"gpt_bigcode", "GPTBigCode", false},
    {"gpt_neo", "GPTNeo", false, hf::read_gpt_neo},
    {"gpt_neox", "GPTNeoX", false},
    {"gpt_oss", "GptOss", true, hf::read_gpt_oss},
    {"gptj", "GPTJ", false, hf::read_gptj},
    {"granite", "Granite", false},
    {"granite_swa", "GraniteSWA", false},
    {"granitemoe", "GraniteMoe", true},
    {"granitemoehybrid", "GraniteMoeHybrid", true, hf::read_granitemoehybrid},
    {"granitemoeshared", "GraniteMoeShared", true},
    {"helium", "Helium", false},
    {"hunyuan_v1_dense", "HunYuanDenseV1", false},
    {"hunyuan_v1_moe", "HunYuanMoEV1", true, hf::read_hunyuan_v1_moe},
    {"hy_v3", "HYV3", true},
    {"hyperclovax", "HyperCLOVAX", false},
    {"internlm", "InternLM", false},
    {"internlm2", "InternLM2", false},
    {"internlm3", "InternLM3", false},
    {"jais2", "Jais2", false},
    {"jamba", "Jamba", true, hf::read_jamba},
    {"kimi_linear", "KimiLinear", true, hf::read_kimi_linear, true},
    {"laguna", "Laguna", true, hf::read_laguna},
    {"lfm2", "Lfm2", false, hf::read_lfm2},
    {"lfm2_moe", "Lfm2Moe", true, hf::read_lfm2_moe},
    {"llama", "Llama", false},
    {"llama4_text", "Llama4", true, hf::read_llama4},
    {"longcat_flash", "LongcatFlash", true, hf::read_longcat_flash, true},
    {"mamba", "Mamba", false, hf::read_mamba},
    {"mamba2", "Mamba2", false, hf::read_mamba2},
    {"mellum", "Mellum", true},
    {"mimo_v2_flash", "MiMoV2Flash", true, hf::read_mimo_v2_flash},
    {"minicpm3", "MiniCPM3", false, hf::read_latent_dense, true},
    {"minimax", "MiniMax", true, hf::read_minimax},
    {"minimax_m2", "MiniMaxM2", true},
    {"minimax_m3", "MiniMaxM3", true, hf::read_minimax_m3},
    {"ministral", "Ministral", false},
    {"ministral3", "Ministral3", false},
    {"mistral", "Mistral", false},
    {"mistral4", "Mistral4", true, hf::read_mistral4, true},
    {"mixtral", "Mixtral", true},
    {"mpt", "MPT", false, hf::read_mpt},
    {"nemotron", "Nemotron", false},
    {"nemotron-nas", "DeciLM", false, hf::read_nemotron_nas},
    {"nemotron_h", "NemotronH", true, hf::read_nemotron_h},
    {"olmo", "Olmo", false},
    {"olmo2", "Olmo2", false},
    {"olmo3", "Olmo3", false},
    {"olmo_hybrid", "OlmoHybrid", false, hf::read_olmo_hybrid},
    {"olmoe", "Olmoe", true},
    {"opt", "OPT", false, hf::read_opt},
    {"orion", "Orion", false},
    {"persimmon", "Persimmon", false},
    {"phi", "Phi", false},
    {"phi3", "Phi3", false},
    {"phimoe", "PhiMoE", true},
    {"qwen", "QWen", false, hf::read_qwen},
    {"qwen2", "Qwen2", false, hf::read_qwen2},
    {"qwen2_moe", "Qwen2Moe", true, hf::read_qwen2_moe},
    {"qwen3", "Qwen3", false, hf::read_qwen3},
    {"qwen3_5", "Qwen3_5", false, hf::read_qwen3_5},
    {"qwen3_5_moe", "Qwen3_5Moe", true, hf::read_qwen3_5_moe},
    {"qwen3_moe", "Qwen3Moe", true, hf::read_qwen3_moe},
    {"qwen3_next", "Qwen3Next", true, hf::read_qwen3_next},
    {"recurrent_gemma", "RecurrentGemma", false, hf::read_recurrent_gemma},
    {"rwkv", "Rwkv", false, hf::read_rwkv},
    {"sarvam_mla", "SarvamMLA", true, hf::read_sarvam_mla, true},
    {"sarvam_moe", "SarvamMoE", true},
    {"seed_oss", "SeedOss", false},
    {"smollm3", "SmolLM3", false},
    {"solar_open", "SolarOpen", true},
    {"stablelm", "StableLm", false},
    {"starcoder2", "Starcoder2", false},
    {"step3p5", "Step3p5", true, hf::read_step3p5},
    {"vaultgemma", "VaultGemma", false},
    {"youtu", "Youtu", false, hf::read_latent_dense, true},
};

// Other names of a model_type, and what a file under that name is saved by.
struct Alias {
  std::string_view model_type;
  std::string_view family;
  const char* class_prefix;
};
constexpr Alias kAliases[] = {
    {"Yi", "llama", "Yi"},
    {"aquila", "llama", "Aquila"},
    {"RefinedWeb", "falcon", "RW"},
    {"RefinedWebModel", "falcon", "RW"},
    {"gemma3_text", "gemma3", "Gemma3"},
    {"gemma3n_text", "gemma3n", "Gemma3n"},
    {"gemma4_text", "gemma4", "Gemma4"},
    {"glm4v_moe_text", "glm4_moe", "Glm4vMoe"},
    {"glm4v_text", "glm4", "Glm4v"},
    {"hunyuan", "hunyuan_v1_moe", "HunYuanMoEV1"},
    {"iquestcoder", "llama", "IQuestCoder"},
    {"kimi_k2", "deepseek_v3", "DeepseekV3"},
    {"llama4", "llama4_text", "Llama4"},
    {"longcat_flash_text", "longcat_flash", "LongcatFlash"},
    {"mimo", "qwen2", "MiMo"},
    {"minicpm", "llama", "MiniCPM"},
    {"minimax_m1", "minimax", "MiniMaxM1"},
    {"minimax_m3_vl", "minimax_m3", "MiniMaxM3Sparse"},
    {"minimax_m3_vl_text", "minimax_m3", "MiniMaxM3VL"},
    {"minimax_text_01", "minimax", "MiniMaxText01"},
    {"qwen2_5_vl", "qwen2", "Qwen2_5_VL"},
    {"qwen2_5_vl_text", "qwen2", "Qwen2_5_VL"},
    {"qwen2_vl", "qwen2", "Qwen2VL"},
    {"qwen2_vl_text", "qwen2", "Qwen2VL"},
    {"qwen3_5_moe_text", "qwen3_5_moe", "Qwen3_5Moe"},
    {"qwen3_5_text", "qwen3_5", "Qwen3_5"},
    {"qwen3_vl", "qwen3", "Qwen3VL"},
    {"qwen3_vl_moe", "qwen3_moe", "Qwen3VLMoe"},
    {"qwen3_vl_moe_text", "qwen3_moe", "Qwen3VLMoe"},
    {"qwen3_vl_text", "qwen3", "Qwen3VL"},
    {"stablelm_epoch", "stablelm", "StableLMEpoch"},
    {"step3p7", "step3p5", "Step3p7"},
    {"xverse", "llama", "Xverse"},
};

// Families that transformers 5 has no class of: it runs them by another's, and saves them so.
struct RunAs {
  std::string_view model_type;
  const char* class_prefix;
};
constexpr RunAs kRunAs[] = {
    {"exaone", "Llama"},          {"internlm3", "Llama"},    {"iquestcoder", "Llama"},
    {"sarvam_mla", "DeepseekV3"}, {"sarvam_moe", "Glm4Moe"}, {"step3p5", "Step3p7"},
};

// Why a model_type that people are likely to try is refused; the others are simply unknown.
struct Refusal {
  std::string_view model_type;
  std::string_view reason;
};
constexpr Refusal kRefusals[] = {
    {"bart", "an encoder-decoder"},
    {"bert", "an encoder"},
    {"mbart", "an encoder-decoder"},
    {"mllama", "layers of cross-attention to images"},
    {"mt5", "an encoder-decoder"},
    {"t5", "an encoder-decoder"},
    {"whisper", "an encoder-decoder"},
    {"zamba", "blocks of attention whose weights layers share"},
    {"zamba2", "blocks of attention whose weights layers share"},
};

[[noreturn]] void refuse_family(const std::string& path, const std::string& problem) {
  refuse(
      ErrorCode::unsupported, path,
      "{}; `tessera help families` lists the known families, {} of them. A model with the layers "
      "of one can be said in its words: {{ \"name\": ..., \"config\": {{ \"model_type\": ... }} }}",
      problem, std::size(kFamilies));
}

const Alias* find_alias(std::string_view model_type) {
  for (const Alias& alias : kAliases) {
    if (model_type == alias.model_type) return &alias;
  }
  return nullptr;
}

const Family* find_family(std::string_view model_type) {
  if (const Alias* alias = find_alias(model_type)) model_type = alias->family;
  for (const Family& family : kFamilies) {
    if (model_type == family.name) return &family;
  }
  return nullptr;
}

// A config that says one family and was saved by the class of another is not to be trusted.
void check_architectures(hf::Config& config, const Family& family, const std::string& model_type) {
  const Json* classes = config.find("architectures");
  if (classes == nullptr) return;
  if (!classes->is_array()) config.fail("architectures", "an array of class names belongs here");
  const Alias* alias = find_alias(model_type);
  const std::string prefix = alias == nullptr ? family.class_prefix : alias->class_prefix;
  // Decoders around which images or sound are read are saved as the last.
  std::vector<std::string> accepted = {prefix + "ForCausalLM", prefix + "LMHeadModel",
                                       prefix + "Model", prefix + "TextModel",
                                       prefix + "ForConditionalGeneration"};
  for (const RunAs& other : kRunAs) {
    if (model_type == other.model_type)
      accepted.push_back(std::string(other.class_prefix) + "ForCausalLM");
  }
  for (const Json& entry : *classes) {
    if (!entry.is_string()) config.fail("architectures", "an array of class names belongs here");
    const auto name = entry.get<std::string>();
    // LLaMAForCausalLM, MptForCausalLM and ExaoneMoeForCausalLM are spelt in two ways.
    const auto is_that = [&](const std::string& one) {
      return std::ranges::equal(one, name, [](unsigned char x, unsigned char y) {
        return std::tolower(x) == std::tolower(y);
      });
    };
    if (std::ranges::none_of(accepted, is_that)) {
      refuse_family(config.path(), fmt::format("architectures says {}, which is not the decoder of "
                                               "model_type {}",
                                               quote(name), quote(model_type)));
    }
  }
}

// Fields that change what a layer is, whatever the model_type claims.
void check_foreign_fields(hf::Config& config, const Family& family, const std::string& model_type) {
  if (!family.latent && config.find("kv_lora_rank") != nullptr) {
    refuse_family(
        config.path(),
        fmt::format("kv_lora_rank: model_type {} with multi-head latent attention (MLA) is not "
                    "understood",
                    quote(model_type)));
  }
  if (config.flag("is_encoder_decoder", false)) {
    refuse_family(config.path(),
                  fmt::format("is_encoder_decoder: model_type {} with an encoder is not "
                              "understood",
                              quote(model_type)));
  }
  if (family.mixture_of_experts) return;
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (config.size({key}, {0, kExpertsRange.high}, 0) > 1) {
      refuse_family(config.path(), fmt::format("{}: model_type {} with experts is not understood",
                                               key, quote(model_type)));
    }
  }
}

// Read by a family, whatever the model_type says.
ModelShape read_by(const Family& family, hf::Config& config) {
  ModelShape model;
  model.family = family.name;
  if (family.read != nullptr) {
    family.read(config, model);
  } else {
    hf::read_switches(config, *hf::find_switches(family.name), model);
  }
  return model;
}

// Parts of keys that say nothing of what layers are.
constexpr std::string_view kBesideShape[] = {
    "2label",    "_eps",    "_id",         "_token",       "architectures", "auto_map",
    "coef",      "dropout", "dtype",       "eps_",         "initializer",   "label2",
    "loss",      "max_",    "model_type",  "name_or_path", "output_",       "pretraining_tp",
    "problem",   "quantiz", "return_dict", "rope_",        "temperature",   "theta",
    "tokenizer", "top_p",   "use_cache",   "version"};

bool says_shape(const std::string& key) {
  return std::ranges::none_of(
      kBesideShape, [&](std::string_view part) { return key.find(part) != std::string::npos; });
}

// "; taken for the family that leaves the least of it unread, ...": what such a plan would leave
// out. Empty where no family reads it.
std::string nearest_words(const Json& json, const std::string& path) {
  constexpr std::size_t kShown = 8;
  const Family* nearest = nullptr;
  std::vector<std::string> left_out;
  double parameters = 0;
  for (const Family& family : kFamilies) {
    try {
      hf::Config config(json, path);
      check_foreign_fields(config, family, family.name);
      const ModelShape model = read_by(family, config);
      check_record(model, FieldPath{path});
      std::vector<std::string> unread = config.unread();
      std::erase_if(unread, [](const std::string& key) { return !says_shape(key); });
      const bool plain = std::string_view(family.name) == "llama";
      const bool better = nearest == nullptr || unread.size() < left_out.size() ||
                          (plain && unread.size() == left_out.size());
      if (!better) continue;
      nearest = &family;
      left_out = std::move(unread);
      parameters = static_cast<double>(model.num_parameters());
    } catch (const Error&) {
      continue;  // not of its kind
    }
  }
  if (nearest == nullptr) return "";
  const std::size_t more = left_out.size() > kShown ? left_out.size() - kShown : 0;
  left_out.resize(left_out.size() - more);
  if (more > 0) left_out.push_back(fmt::format("{} more", more));
  const std::string lost = left_out.empty()
                               ? "no key that says a shape would be left out"
                               : "left out would be what these keys say: " + join(left_out, ", ");
  return fmt::format(". Nearest is {}, by which it has {} parameters; {}", nearest->name,
                     format_count(parameters), lost);
}

[[noreturn]] void refuse_model_type(const std::string& model_type, const Json& json,
                                    const std::string& path) {
  const std::string reason = reason_not_understood(model_type);
  const bool encodes = reason.starts_with("an encoder");
  refuse_family(path, fmt::format("model_type {}{} is not understood{}", quote(model_type),
                                  reason.empty() ? "" : " (" + reason + ")",
                                  encodes ? "" : nearest_words(json, path)));
}

// A decoder around which images or sound are read lies in a config of its own: by transformers in
// text_config, whose embeddings its class ties by the outer config where that says so; by others'
// code in a model of its own, which leaves to the outer one what it does not say. What speaks too
// has all that in a thinker_config.
struct TextConfig {
  Json json;
  std::string path;
};

TextConfig text_config_of(const Json& config, const std::string& path) {
  TextConfig found{config, path};
  for (const char* key : {"thinker_config", "text_config", "llm_config", "language_config"}) {
    const auto at = found.json.find(key);
    if (at == found.json.end() || at->is_null()) continue;
    Json inner = *at;
    found.path += std::string(": ") + key;
    const JsonFields must_be_object(inner, found.path);
    const auto tied = found.json.find("tie_word_embeddings");
    const bool outer_counts = std::string_view(key) == "text_config";
    if (tied != found.json.end() && (outer_counts || !inner.contains("tie_word_embeddings")))
      inner["tie_word_embeddings"] = *tied;
    found.json = std::move(inner);
  }
  return found;
}

// A config.json says nothing of its name; the folder it lies in usually does.
std::string name_from_path(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.filename() == "config.json" && !file.parent_path().filename().empty())
    return file.parent_path().filename().string();
  return file.stem().string();
}

}  // namespace

std::vector<std::string> known_model_families() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  return names;
}

std::string reason_not_understood(std::string_view model_type) {
  if (model_type.ends_with("_text")) model_type.remove_suffix(5);
  for (const Refusal& refusal : kRefusals) {
    if (model_type == refusal.model_type) return std::string(refusal.reason);
  }
  return "";
}

bool is_known_model_type(std::string_view model_type) { return find_family(model_type) != nullptr; }

ModelShape model_from_hf_config(const Json& config, const std::string& name,
                                const std::string& path) {
  std::string model_type = JsonFields(config, path).text("model_type");
  hf::Config outer(config, path);
  const TextConfig text = text_config_of(config, path);
  const bool nested = text.path != path;
  if (nested && text.json.contains("model_type"))
    model_type = JsonFields(text.json, text.path).text("model_type");
  const Family* family = find_family(model_type);
  if (family == nullptr) refuse_model_type(model_type, text.json, path);

  hf::Config inner(text.json, text.path);
  if (nested) check_foreign_fields(outer, *family, model_type);
  check_architectures(inner, *family, model_type);
  check_foreign_fields(inner, *family, model_type);
  ModelShape model = read_by(*family, inner);
  model.name = name;
  model.source = path;
  model.towers = hf::towers_of(config, model.hidden_size);
  check_record(model, FieldPath{path});
  // As the last of the others, where the family's reader says nothing else.
  if (model.next_token_layers == 0)
    hf::count_next_token_layers(inner, model.layer(model.num_layers - 1).parameters(), model);
  return model;
}

ModelShape model_from_json(const Json& json, const std::string& path) {
  JsonFields fields(json, path);
  if (!fields.has("config")) {
    if (fields.has("model_type")) return model_from_hf_config(json, name_from_path(path), path);
    refuse(path,
           "neither an architecture file of Tessera (no 'config') nor a Hugging "
           "Face config.json (no 'model_type')");
  }
  const std::string name = fields.text("name");
  const std::string source = fields.text("source", path);
  const double most = static_cast<double>(kMaxParameters);
  const double published = fields.number("published_parameters", 1, most, most);
  fields.number("published_active_parameters", 1, published, published);
  fields.text("parameters_source", "");
  if (fields.has("ids")) read_field<std::vector<std::string>>(fields, "ids");
  const Json& config = fields.at("config");
  fields.finish();
  ModelShape model = model_from_hf_config(config, name, path + ": config");
  model.source = source;
  return model;
}

}  // namespace tessera
