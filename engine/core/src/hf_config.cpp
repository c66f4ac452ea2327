// From a Hugging Face config.json to the reader of its family, or to a refusal that says why.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "families/family.h"
#include "families/switches.h"
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
};

// Sorted by name.
constexpr Family kFamilies[] = {
    {"apertus", "Apertus", false},
    {"arcee", "Arcee", false},
    {"baichuan", "Baichuan", false},
    {"bloom", "Bloom", false, hf::read_bloom},
    {"codegen", "CodeGen", false, hf::read_gptj},
    {"cohere", "Cohere", false},
    {"cohere2", "Cohere2", false},
    {"deepseek", "Deepseek", true},
    {"deepseek_v2", "DeepseekV2", true, hf::read_deepseek_v2},
    {"deepseek_v3", "DeepseekV3", true, hf::read_deepseek_v3},
    {"dots1", "Dots1", true},
    {"ernie4_5", "Ernie4_5", false},
    {"ernie4_5_moe", "Ernie4_5_Moe", true},
    {"exaone", "Exaone", false},
    {"exaone4", "Exaone4", false},
    {"falcon", "Falcon", false, hf::read_falcon},
    {"gemma", "Gemma", false},
    {"gemma2", "Gemma2", false},
    {"gemma3", "Gemma3", false, hf::read_gemma3},
    {"glm", "Glm", false},
    {"glm4", "Glm4", false},
    {"glm4_moe", "Glm4Moe", true, hf::read_glm4_moe},
    {"gpt2", "GPT2", false, hf::read_gpt2},
    {"gpt_bigcode", "GPTBigCode", false},
    {"gpt_neo", "GPTNeo", false, hf::read_gpt_neo},
    {"gpt_neox", "GPTNeoX", false},
    {"gpt_oss", "GptOss", true, hf::read_gpt_oss},
    {"gptj", "GPTJ", false, hf::read_gptj},
    {"granite", "Granite", false},
    {"granitemoe", "GraniteMoe", true},
    {"helium", "Helium", false},
    {"hunyuan_v1_dense", "HunYuanDenseV1", false},
    {"internlm2", "InternLM2", false},
    {"llama", "Llama", false},
    {"llama4_text", "Llama4", true, hf::read_llama4},
    {"minimax_m2", "MiniMaxM2", true},
    {"ministral", "Ministral", false},
    {"ministral3", "Ministral3", false},
    {"mistral", "Mistral", false},
    {"mixtral", "Mixtral", true},
    {"mpt", "MPT", false, hf::read_mpt},
    {"nemotron", "Nemotron", false},
    {"olmo", "Olmo", false},
    {"olmo2", "Olmo2", false},
    {"olmo3", "Olmo3", false},
    {"olmoe", "Olmoe", true},
    {"opt", "OPT", false, hf::read_opt},
    {"phi", "Phi", false},
    {"phi3", "Phi3", false},
    {"phimoe", "PhiMoE", true},
    {"qwen", "QWen", false, hf::read_qwen},
    {"qwen2", "Qwen2", false, hf::read_qwen2},
    {"qwen2_moe", "Qwen2Moe", true, hf::read_qwen2_moe},
    {"qwen3", "Qwen3", false, hf::read_qwen3},
    {"qwen3_moe", "Qwen3Moe", true, hf::read_qwen3_moe},
    {"seed_oss", "SeedOss", false},
    {"smollm3", "SmolLM3", false},
    {"stablelm", "StableLm", false},
    {"starcoder2", "Starcoder2", false},
};

// Other names of a model_type, and what a file under that name is saved by.
struct Alias {
  std::string_view model_type;
  std::string_view family;
  const char* class_prefix;
};
constexpr Alias kAliases[] = {
    {"RefinedWeb", "falcon", "RW"},
    {"RefinedWebModel", "falcon", "RW"},
    {"gemma3_text", "gemma3", "Gemma3"},
    {"kimi_k2", "deepseek_v3", "DeepseekV3"},
    {"llama4", "llama4_text", "Llama4"},
    {"qwen2_5_vl", "qwen2", "Qwen2_5_VL"},
    {"qwen2_5_vl_text", "qwen2", "Qwen2_5_VL"},
    {"qwen2_vl", "qwen2", "Qwen2VL"},
    {"qwen2_vl_text", "qwen2", "Qwen2VL"},
    {"qwen3_vl", "qwen3", "Qwen3VL"},
    {"qwen3_vl_moe", "qwen3_moe", "Qwen3VLMoe"},
    {"qwen3_vl_moe_text", "qwen3_moe", "Qwen3VLMoe"},
    {"qwen3_vl_text", "qwen3", "Qwen3VL"},
};

// Why a model_type that people are likely to try is refused; the others are simply unknown.
struct Refusal {
  std::string_view model_type;
  std::string_view reason;
};
constexpr Refusal kRefusals[] = {
    {"bart", "an encoder-decoder"},
    {"bert", "an encoder"},
    {"deepseek_v32", "sparse attention to a latent"},
    {"falcon_h1", "a hybrid with a state-space model"},
    {"falcon_mamba", "a state-space model"},
    {"gemma3n", "embeddings of each layer and keys that layers share"},
    {"gemma4", "layers of unlike heads and keys that layers share"},
    {"granitemoehybrid", "a hybrid with a state-space model"},
    {"jamba", "a hybrid with a state-space model"},
    {"kimi_linear", "a hybrid with linear attention"},
    {"lfm2", "a hybrid with convolutions"},
    {"mamba", "a state-space model"},
    {"mamba2", "a state-space model"},
    {"mbart", "an encoder-decoder"},
    {"minicpm3", "multi-head latent attention with scales of its own"},
    {"minimax_m1", "a hybrid with linear attention"},
    {"mllama", "layers of cross-attention to images"},
    {"mt5", "an encoder-decoder"},
    {"nemotron-nas", "layers of unlike widths, some without attention"},
    {"nemotron_h", "a hybrid with a state-space model"},
    {"qwen3_5", "a hybrid with linear attention"},
    {"qwen3_5_moe", "a hybrid with linear attention"},
    {"qwen3_next", "a hybrid with linear attention"},
    {"recurrent_gemma", "a recurrent model"},
    {"rwkv", "a recurrent model"},
    {"t5", "an encoder-decoder"},
    {"whisper", "an encoder-decoder"},
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
  const std::array<std::string, 5> accepted = {prefix + "ForCausalLM", prefix + "LMHeadModel",
                                               prefix + "Model", prefix + "TextModel",
                                               prefix + "ForConditionalGeneration"};
  for (const Json& entry : *classes) {
    if (!entry.is_string()) config.fail("architectures", "an array of class names belongs here");
    const auto name = entry.get<std::string>();
    // How early conversions of Llama 1 spelt it.
    if (model_type == "llama" && name == "LLaMAForCausalLM") continue;
    if (model_type == "mpt" && name == "MptForCausalLM") continue;  // transformers' own class
    if (std::find(accepted.begin(), accepted.end(), name) == accepted.end()) {
      refuse_family(config.path(), fmt::format("architectures says {}, which is not the decoder of "
                                               "model_type {}",
                                               quote(name), quote(model_type)));
    }
  }
}

// Fields that change what a layer is, whatever the model_type claims.
void check_foreign_fields(hf::Config& config, const Family& family, const std::string& model_type) {
  const bool latent = std::string_view(family.name).starts_with("deepseek");
  if (!latent && config.find("kv_lora_rank") != nullptr) {
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

[[noreturn]] void refuse_model_type(const std::string& model_type, const std::string& path) {
  const std::string reason = reason_not_understood(model_type);
  refuse_family(path, fmt::format("model_type {}{} is not understood", quote(model_type),
                                  reason.empty() ? "" : " (" + reason + ")"));
}

// A decoder around which images or sound are read lies in a config of its own, which leaves to the
// outer one whether embeddings are tied.
Json text_config_of(const Json& config, const std::string& path) {
  Json text = JsonFields(config, path).at("text_config");
  const JsonFields must_be_object(text, path + ": text_config");
  if (config.contains("tie_word_embeddings") && !text.contains("tie_word_embeddings")) {
    text["tie_word_embeddings"] = config.at("tie_word_embeddings");
  }
  return text;
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

ModelShape model_from_hf_config(const Json& config, const std::string& name,
                                const std::string& path) {
  std::string model_type = JsonFields(config, path).text("model_type");
  hf::Config outer(config, path);
  const bool nested = outer.find("text_config") != nullptr;
  const Json text = nested ? text_config_of(config, path) : Json();
  if (nested && text.contains("model_type")) {
    model_type = JsonFields(text, path + ": text_config").text("model_type");
  }
  const Family* family = find_family(model_type);
  if (family == nullptr) refuse_model_type(model_type, path);

  ModelShape model;
  model.name = name;
  model.family = family->name;
  model.source = path;
  hf::Config inner(nested ? text : config, nested ? path + ": text_config" : path);
  if (nested) check_foreign_fields(outer, *family, model_type);
  check_architectures(inner, *family, model_type);
  check_foreign_fields(inner, *family, model_type);
  if (family->read != nullptr) {
    family->read(inner, model);
  } else {
    hf::read_switches(inner, *hf::find_switches(family->name), model);
  }
  check_record(model, FieldPath{path});
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
