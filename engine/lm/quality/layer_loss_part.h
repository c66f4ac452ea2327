#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/lm/language_model.h"
#include "tessera/lm/layer_loss.h"

/// The layers that are done, in a file beside the result until it is whole.
namespace tessera::lm::quality {

/// Of one layer: [bitwidth][piece], nats per token.
using LayerEffects = std::vector<std::vector<double>>;

/// Everything that the effects depend on.
Json settings_of(const LanguageModel& model, const LayerLossRequest& request,
                 const std::vector<std::int32_t>& tokens);

class PartFile {
 public:
  /// Reads what an earlier run left. `out` "": nothing is read or written.
  /// @throws Error{invalid_argument} naming the setting in which that run differed
  PartFile(const std::string& out, Json settings, const LayerLossRequest& request,
           std::int64_t num_layers);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<LayerEffects>& layers() const { return layers_; }
  double spent_s() const { return spent_s_; }  ///< by earlier runs

  /// One more layer is done, `seconds` after this run began.
  void add(LayerEffects effects, double seconds);
  void remove() const;

 private:
  void read(const LayerLossRequest& request, std::int64_t num_layers);

  std::string path_;
  std::unique_ptr<Json> settings_;
  std::vector<LayerEffects> layers_;
  double spent_s_ = 0;
};

}  // namespace tessera::lm::quality
