#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/weights/dtype.h"

namespace tessera::weights {

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;  ///< one that safetensors knows
  std::vector<std::int64_t> shape;
};

struct WriterOptions {
  std::map<std::string, std::string> metadata = {};  ///< `__metadata__`
  /// Above it the tensors go into `model-00001-of-00003.safetensors`, ... with
  /// `model.safetensors.index.json`; 0: one file whatever its size. A tensor is never split.
  std::uint64_t max_shard_bytes = 0;
};

/// Writes safetensors as a stream: all tensors are declared first, then their bytes follow, so that
/// a model never has to be in memory. The same tensors give the same bytes.
///
///     SafetensorsWriter writer("out/model.safetensors", {{"a.weight", DType::f16, {2, 3}}});
///     writer.append("a.weight", bytes);   // whole, or piece by piece
///     writer.finish();
///
/// Every file is an OutputFile (core/output.h), and all are on the disk before `finish` names the
/// first. Without `finish` nothing is left behind. In the file, tensors of wide elements
/// come first, so that each is aligned to its own; the data start at a multiple of 64 bytes.
class SafetensorsWriter {
 public:
  /// @param path "dir/model.safetensors"; the folder exists
  /// @throws Error{invalid_argument} for names given twice, empty or no UTF-8, shapes that do not
  /// fit the type or overflow, Error{not_found, io} where the files cannot be made
  SafetensorsWriter(const std::string& path, const std::vector<TensorSpec>& tensors,
                    const WriterOptions& options = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next bytes of a tensor, row-major and little-endian. Tensors may come in any order.
  /// @throws Error{internal} for a tensor that was not declared or bytes beyond its end, Error{io}
  void append(std::string_view name, std::span<const std::byte> data);

  /// @throws Error{internal} where a tensor is incomplete, Error{io}
  void finish();

  /// Of the files that `finish` leaves, index included, sorted.
  std::vector<std::string> files() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tessera::weights
