#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/stored_format.h"

namespace tessera {
namespace {

// Where quantisers write what they left alone: transformers and vLLM's readers of each.
constexpr const char* kLists[] = {"ignore", "modules_to_not_convert", "ignored_layers",
                                  "exclude_modules", "llm_int8_skip_modules"};
constexpr std::size_t kMostModules = 16'384;  // files have some hundreds

void add_names(const Json& quantised, std::vector<std::string>& names) {
  if (!quantised.is_object()) return;
  for (const char* list : kLists) {
    const auto found = quantised.find(list);
    if (found == quantised.end() || !found->is_array()) continue;
    for (const Json& name : *found) {
      if (name.is_string() && names.size() < kMostModules) names.push_back(name.get<std::string>());
    }
  }
}

const Json* entry_of(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool fits(std::string_view glob, std::string_view text) {
  std::size_t g = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      from = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

// Of a regular expression what names need of it: dots, any text, numbers, one choice. A match is of
// a beginning, as Python's re.match has it.
std::vector<std::string> globs_of(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto is_here = [&](std::string_view part) {
      const bool here = pattern.substr(i, part.size()) == part;
      if (here) i += part.size() - 1;
      return here;
    };
    if (is_here(".*") || is_here(".+") || is_here("\\d+") || is_here("[0-9]+")) {
      text += '*';
    } else if (is_here("(?:")) {
      text += '(';
    } else if (pattern[i] != '\\' && pattern[i] != '^' && pattern[i] != '$') {
      text += pattern[i];
    }
  }
  if (!pattern.ends_with('$')) text += '*';
  const std::size_t open = text.find('('), close = text.find(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return {text};
  std::vector<std::string> globs;
  std::string_view choice(text.data() + open + 1, close - open - 1);
  while (true) {
    const std::size_t bar = choice.find('|');
    globs.push_back(text.substr(0, open) + std::string(choice.substr(0, bar)) +
                    text.substr(close + 1));
    if (bar == std::string_view::npos) return globs;
    choice.remove_prefix(bar + 1);
  }
}

// A name from its layer on, whatever wraps the decoder.
std::string from_layer(const std::string& name) {
  const std::size_t at = name.find("layers.");
  return at == std::string::npos ? name : name.substr(at);
}

struct Pattern {
  std::vector<std::string> globs;
  std::optional<std::int64_t> layer;  // that it is of; else of all

  bool covers(const std::string& module) const {
    return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
      return fits(glob, module) || fits(glob + ".*", module) || fits("*." + glob, module) ||
             fits("*." + glob + ".*", module);
    });
  }
};

Pattern pattern_of(const std::string& module) {
  const bool is_regex = module.starts_with("re:");
  Pattern pattern;
  for (const std::string& glob :
       is_regex ? globs_of(std::string_view(module).substr(3)) : std::vector{module}) {
    pattern.globs.push_back(from_layer(glob));
  }
  const std::string& first = pattern.globs.front();
  std::size_t digits = 0;
  if (first.starts_with("layers."))
    while (7 + digits < first.size() && std::isdigit(static_cast<unsigned char>(first[7 + digits])))
      ++digits;
  if (digits > 0 && digits < 7) pattern.layer = std::stoll(first.substr(7, digits));
  return pattern;
}

// What transformers calls a matrix in its layer.
std::vector<std::string> modules_of(const std::string& linear) {
  const std::size_t dot = linear.find('.');
  if (linear.starts_with("experts.")) return {"mlp.experts.0." + linear.substr(dot + 1)};
  if (linear.starts_with("shared_expert."))
    return {"mlp.shared_expert." + linear.substr(dot + 1),
            "mlp.shared_experts." + linear.substr(dot + 1)};
  if (linear == "gate_proj" || linear == "up_proj" || linear == "down_proj")
    return {"mlp." + linear};
  if (linear == "kv_a_proj") return {"self_attn.kv_a_proj_with_mqa"};
  return {"self_attn." + linear};
}

}  // namespace

std::vector<std::string> kept_modules(const Json& config, const std::string& folder) {
  std::vector<std::string> names;
  for (const Json* at : {&config, entry_of(config, "text_config")}) {
    if (at == nullptr) continue;
    for (const char* key : {"quantization_config", "compression_config"}) {
      if (const Json* quantised = entry_of(*at, key)) add_names(*quantised, names);
    }
  }
  const std::string beside = (std::filesystem::path(folder) / "hf_quant_config.json").string();
  if (file_kind(beside) != FileKind::file) return names;
  const Json modelopt = read_json_file(beside);
  if (const Json* quantised = entry_of(modelopt, "quantization")) add_names(*quantised, names);
  return names;
}

std::vector<KeptLinear> kept_linears(const std::vector<std::string>& modules,
                                     const ModelShape& model) {
  std::map<std::string, std::set<std::int64_t>> kept;  // layers by matrix
  std::map<std::string, std::int64_t> layers_of;       // that have it
  for (std::int64_t i = 0; i < model.num_layers; ++i)
    for (const LinearShape& linear : model.layer(i).linears) ++layers_of[linear.name];
  const auto add = [&](const Pattern& pattern, std::int64_t layer, bool in_all) {
    for (const auto& [linear, count] : layers_of) {
      for (const std::string& module : modules_of(linear)) {
        if (!pattern.covers("layers." + std::to_string(layer) + "." + module)) continue;
        for (std::int64_t i = in_all ? 0 : layer; i < (in_all ? model.num_layers : layer + 1); ++i)
          kept[linear].insert(i);
      }
    }
  };
  for (const std::string& module : modules) {
    const Pattern pattern = pattern_of(module);
    if (!pattern.layer) add(pattern, 0, true);
    if (pattern.layer && *pattern.layer < model.num_layers) add(pattern, *pattern.layer, false);
  }
  std::vector<KeptLinear> list;
  for (const auto& [linear, layers] : kept) {
    std::int64_t count = 0;
    for (const std::int64_t i : layers)
      for (const LinearShape& own : model.layer(i).linears) count += own.name == linear ? 1 : 0;
    if (count > 0)
      list.push_back({linear, static_cast<double>(count) / static_cast<double>(layers_of[linear])});
  }
  return list;
}

}  // namespace tessera
