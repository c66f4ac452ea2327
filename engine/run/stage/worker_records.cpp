#include "tessera/run/worker_records.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/run/handshake.h"

namespace tessera::run {
namespace {

// Of a file of weights all up to 16 MiB, of a larger one 256 pieces of it, evenly spread: a folder
// of 100 GB is told from another in a tenth of a second.
constexpr std::int64_t kPieceBytes = 64 << 10, kMostPieces = 256;

// What of a model's folder decides what its layers compute.
bool is_of_the_model(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name == "config.json" || name.ends_with(".safetensors") ||
         name.ends_with(".safetensors.index.json") || name.ends_with(".gguf");
}

// Digests of the pieces; no more than one of them is in memory.
std::string digests_of(const std::filesystem::path& path, std::int64_t size) {
  std::ifstream file(path, std::ios::binary);
  const std::int64_t whole = (size + kPieceBytes - 1) / kPieceBytes;
  const std::int64_t pieces = std::min(whole, kMostPieces);
  std::string digests, piece;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t from =
        whole <= kMostPieces ? i * kPieceBytes : (size - kPieceBytes) / (pieces - 1) * i;
    piece.resize(kPieceBytes);
    file.seekg(from);
    file.read(piece.data(), kPieceBytes);
    piece.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
    file.clear();
    digests += digest_of(piece);
  }
  return digests;
}

}  // namespace

LoadOrder load_order_of(const lm::LoadRequest& request) {
  LoadOrder order;
  order.path = request.path;
  order.dtype = request.dtype;
  order.statistics = request.statistics;
  order.kv_bitwidth = request.kv_bitwidth;
  order.device = request.device;
  order.threads = request.num_threads;
  for (const lm::LayerForm& form : request.layers) {
    order.bitwidths.push_back(form.as_stored ? 0 : form.bitwidth);
    if (form.bitwidth < 16) {
      order.method = form.method;
      order.scheme = form.scheme;
    }
    order.int8 = order.int8 || form.int8;
    order.activation_bitwidth = form.activation_bitwidth;
  }
  return order;
}

lm::LoadRequest request_of(const LoadOrder& order) {
  lm::LoadRequest request;
  request.path = order.path;
  request.dtype = order.dtype;
  request.statistics = order.statistics;
  request.kv_bitwidth = order.kv_bitwidth;
  request.device = order.device;
  request.num_threads = order.threads;
  request.first_layer = order.first_layer;
  request.last_layer = order.last_layer;
  request.with_embedding = order.with_embedding;
  request.with_head = order.with_head;
  request.rank = order.tensor_rank;
  request.ranks = order.tensor_ranks;
  request.attention_elsewhere = order.attention_elsewhere;
  for (const std::int32_t bitwidth : order.bitwidths) {
    lm::LayerForm form{.activation_bitwidth = order.activation_bitwidth};
    form.as_stored = bitwidth == 0;
    if (form.as_stored) {
      request.layers.push_back(form);
      continue;
    }
    form.bitwidth = bitwidth;
    form.method = order.method;
    form.scheme = order.scheme;
    form.scheme.scale_type = kernels::Real::f16;
    form.int8 = order.int8 && bitwidth == 8;
    if (bitwidth < 16) form.scheme.bitwidth = bitwidth;
    request.layers.push_back(form);
  }
  return request;
}

std::string model_fingerprint(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (entry.is_regular_file(error) && is_of_the_model(entry.path())) {
        files.push_back(entry.path());
      }
    }
  } else {
    files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const fs::path& file : files) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) {
      refuse(ErrorCode::not_found, quote(path, 300), "{}: {}", file.filename().string(),
             std::strerror(errno));
    }
    text += fmt::format("{} {} {}\n", file.filename().string(), status.st_size,
                        digest_of(digests_of(file, status.st_size)));
  }
  return digest_of(text);
}

}  // namespace tessera::run
