#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::quant {

/// A folder that appears complete or not at all: written beside its place under a temporary name,
/// given its own by `commit`, gone without.
class OutputFolder {
 public:
  /// @param overwrite a result of ours that is there already may go when the new one is complete
  /// @throws Error{io} where the place is taken or cannot be written
  OutputFolder(const std::string& path, bool overwrite);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where to write until `commit`.
  const std::string& path() const { return temporary_; }

  /// @throws Error{io} with both numbers where the disk has less room
  void require_space(std::uint64_t bytes) const;

  void commit();

 private:
  std::string final_, temporary_;
  bool replaces_ = false, committed_ = false;
};

/// The file that says that a folder is a result of ours.
inline constexpr const char* kResultFile = "tessera_quantisation.json";

/// Names of the files beside the weights: tokenizer, generation settings, licence. Not the weights
/// in any format, config.json, hidden files and folders.
std::vector<std::string> files_to_copy(const std::string& model);

}  // namespace tessera::quant
