#include "layer_loss_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "tessera/core/access.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/record_json.h"

namespace tessera::lm::quality {
namespace {

constexpr const char* kFormat = "tessera.layer_loss/1";
constexpr double kMostSeconds = 1e12;

/// FNV-1a (Fowler, Noll and Vo), 64 bits.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ull;
};

std::string hash_of(const std::vector<std::int32_t>& tokens) {
  Hash hash;
  for (const std::int32_t token : tokens) hash.add(fmt::format("{},", token));
  return hash.text();
}

std::string forms_of(const LanguageModel& model) {
  Hash hash;
  for (std::int64_t i = 0; i < model.shape().num_layers; ++i)
    hash.add(model.describe_layer(i) + "\n");
  return hash.text();
}

/// Of a file, or of the files in a folder: names, sizes and times of change, since reading all
/// weights again would take as long as loading them.
std::string files_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      const fs::path ending = entry.path().extension();
      if (ending == ".safetensors" || ending == ".gguf" || entry.path().filename() == "config.json")
        files.push_back(entry.path());
    }
  } else if (!path.empty()) {
    files.emplace_back(path);
  }
  std::ranges::sort(files);
  Hash hash;
  for (const fs::path& file : files) {
    const auto changed = fs::last_write_time(file, error).time_since_epoch().count();
    hash.add(
        fmt::format("{} {} {}\n", file.filename().string(), fs::file_size(file, error), changed));
  }
  return hash.text();
}

}  // namespace

Json settings_of(const LanguageModel& model, const LayerLossRequest& request,
                 const std::vector<std::int32_t>& tokens) {
  const LoadRequest& load = model.request();
  Json settings;
  settings["model"] = load.path;
  settings["files of the model"] = files_of(load.path);
  settings["weight_bytes"] = model.weight_bytes();
  settings["layers of the model"] = forms_of(model);
  settings["dtype"] = name_of(load.dtype);
  settings["kv_bitwidth"] = load.kv_bitwidth;
  settings["statistics"] = load.statistics;
  settings["file of the statistics"] = files_of(load.statistics);
  settings["text"] = hash_of(tokens);
  settings["num_pieces"] = request.num_pieces;
  settings["piece_tokens"] = request.piece_tokens;
  settings["effect"] = name_of(request.effect);
  settings["bitwidths"] = request.bitwidths;
  settings["method"] = name_of(request.form.method);
  settings["scheme"] = json_of(request.form.scheme);
  settings["scale_type"] = name_of(request.form.scheme.scale_type);
  settings["activation_bitwidth"] = request.form.activation_bitwidth;
  settings["int8"] = request.form.int8;
  settings["outlier_threshold"] = request.form.outlier_threshold;
  return settings;
}

PartFile::PartFile(const std::string& out, Json settings, const LayerLossRequest& request,
                   std::int64_t num_layers)
    : path_(out.empty() ? "" : out + ".part"),
      settings_(std::make_unique<Json>(std::move(settings))) {
  if (!path_.empty() && file_kind(path_) != FileKind::none) read(request, num_layers);
}

PartFile::~PartFile() = default;

void PartFile::read(const LayerLossRequest& request, std::int64_t num_layers) {
  const Json json = read_json_file(path_);
  JsonFields fields(json, path_);
  if (const std::string format = fields.text("format"); format != kFormat)
    refuse(fields.path_of("format"), "is '{}'; '{}' belongs there", format, kFormat);
  const Json& found = fields.at("settings");
  for (const auto& [name, value] : settings_->items()) {
    if (found.is_object() && found.contains(name) && found[name] == value) continue;
    refuse(path_,
           "was left by a run with other settings: {} is {} here; go on with those, or remove the "
           "file",
           name, shown_json(value));
  }
  spent_s_ = fields.number("spent_s", 0, kMostSeconds);
  const Json& layers = fields.at("effects");
  check_array(layers, fields.path_of("effects"));
  for (const Json& layer : layers) {
    const std::string where = fmt::format("{}[{}]", fields.path_of("effects"), layers_.size());
    check_array(layer, where);
    LayerEffects effects;
    for (const Json& pieces : layer)
      effects.push_back(json_numbers(pieces, where, -kMaxIndicatorOmega, kMaxIndicatorOmega));
    for (const std::vector<double>& pieces : effects) {
      if (static_cast<std::int64_t>(pieces.size()) != request.num_pieces)
        refuse(where, "holds {} pieces, {} belong there", pieces.size(), request.num_pieces);
    }
    if (effects.size() != request.bitwidths.size() ||
        static_cast<std::int64_t>(layers_.size()) == num_layers) {
      refuse(where, "has {} bitwidths in layer {}; {} in less than {} layers belong there",
             effects.size(), layers_.size(), request.bitwidths.size(), num_layers);
    }
    layers_.push_back(std::move(effects));
  }
  fields.finish();
}

void PartFile::add(LayerEffects effects, double seconds) {
  layers_.push_back(std::move(effects));
  if (path_.empty()) return;
  Json json;
  json["format"] = kFormat;
  json["settings"] = *settings_;
  json["spent_s"] = spent_s_ + seconds;
  json["effects"] = layers_;
  write_file(path_, json_text(json) + "\n");
}

void PartFile::remove() const {
  if (path_.empty() || file_kind(path_) == FileKind::none) return;
  check_may_replace(path_);
  std::error_code error;
  std::filesystem::remove(path_, error);
  if (error) refuse(ErrorCode::io, path_, "cannot be removed: {}", error.message());
}

}  // namespace tessera::lm::quality
