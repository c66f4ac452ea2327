#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"
#include "tessera/weights/dtype.h"

namespace tessera::weights {

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  ///< row-major, slowest first, also for GGUF
  std::string file;
  std::uint64_t offset_bytes = 0;  ///< from the start of the file
  std::uint64_t size_bytes = 0;

  std::int64_t num_elements() const { return *weights::num_elements(shape); }
};

/// The weights of a model on disk, mapped into memory and never copied: a safetensors file, a state
/// dictionary of PyTorch (1.6 or newer; nothing of its pickle is executed), a GGUF
/// file (versions 2 and 3), or a folder that holds either; safetensors sharded with
/// model.safetensors.index.json or without, GGUF in parts NAME-00001-of-00005.gguf, of which any
/// may be named.
///
/// Every offset, size and name is checked before anything is read, so a file of a few bytes cannot
/// ask for gigabytes. A file that changes its length after `open` is an Error at the next read; one
/// that is cut while a read is under way ends the process with SIGBUS, as for every mapped file.
///
/// May be read from several threads.
class Weights {
 public:
  /// @throws Error{not_found} without such a file, Error{io} for what cannot be read,
  /// Error{invalid_argument} for what is no such file: broken, cut short, contradictory (the
  /// message names file and byte), Error{unsupported} for PyTorch's pickles and other formats
  static std::shared_ptr<const Weights> open(const std::string& path);
  ~Weights();
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /// In the order of files, and in a file by offset.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;  ///< nullptr if there is none
  /// @throws Error{not_found} with the nearest names
  const TensorInfo& require(std::string_view name) const;

  std::vector<std::string> names() const;  ///< of the tensors, in their order

  /// The mapped bytes; valid as long as this object is.
  /// @throws Error{io} where the file has changed since it was opened
  std::span<const std::byte> bytes(const TensorInfo& tensor) const;

  /// Says that the pages of the tensor are no longer needed: memory in use stays at what is being
  /// read. They may be read again, from disk or from the system's cache.
  void release(const TensorInfo& tensor) const;

  /// Says that the tensor will soon be read: the system begins to fetch it, and nobody waits.
  void prefetch(const TensorInfo& tensor) const;

  /// config.json of the folder; null where there is none. Of a GGUF file its metadata in its own
  /// words ("llama.block_count"); an array of more than 4096 entries (the vocabulary) is given as
  /// { "type", "length" }.
  const Json& config() const { return config_; }
  /// The entries of an array of a GGUF file's metadata, however long ("tokenizer.ggml.tokens"):
  /// texts in UTF-8, which lie in the mapped file, so as long as this object is, or numbers.
  /// Nothing where there is no such array.
  /// @throws Error{invalid_argument} naming file and byte where it is none of texts (numbers),
  /// Error{io} where the file has changed since it was opened
  std::optional<std::vector<std::string_view>> metadata_texts(const std::string& key) const;
  std::optional<std::vector<double>> metadata_numbers(const std::string& key) const;
  /// Where `config` was read; "" where there is none.
  const std::string& config_path() const { return config_path_; }
  /// `__metadata__` of the first safetensors file that has any, texts; else an empty object.
  const Json& metadata() const { return metadata_; }

  const std::string& path() const { return path_; }  ///< as given to `open`
  bool is_gguf() const { return is_gguf_; }
  std::uint64_t size_bytes() const;  ///< of all tensors
  const std::vector<std::string>& files() const { return files_; }

 private:
  struct Parts;
  Weights();
  void add_file(const std::string& path);
  void check_parts() const;
  void index_names();

  std::string path_, config_path_;
  bool is_gguf_ = false;
  std::vector<std::string> files_;
  std::vector<TensorInfo> tensors_;
  Json config_, metadata_;
  std::unique_ptr<Parts> parts_;
};

/// Elements [first, first + out.size()) of a tensor in row-major order as f32, whatever they are
/// stored as: blocks of GGUF are dequantised, f64 and integers rounded to the nearest f32.
/// @throws Error{out_of_range} beyond the tensor, Error{unsupported} naming a type that is listed
/// but not understood (Q8_1, F4, ...)
void read_f32(const Weights& weights, const TensorInfo& tensor, std::int64_t first,
              std::span<float> out);

/// The architecture: from config.json, or from the metadata of a GGUF file. Named after the folder,
/// or the GGUF file. Embeddings that the configuration ties and the file does not are not tied.
/// @throws Error{not_found} without config.json, Error{unsupported, invalid_argument} as
/// model_from_hf_config
ModelShape model_of(const Weights& weights);

/// The same of a path, as the checkpoint that was named: of a GGUF file, which servers take as it
/// is, its path, the type of most of its weights and the bits of one on average.
ModelShape checkpoint_at(const std::string& path);

}  // namespace tessera::weights
