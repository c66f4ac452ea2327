#include "decoder_cache.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "latent_attention.h"
#include "share.h"
#include "tessera/core/error.h"
#include "tessera/core/pages.h"
#include "tessera/core/units.h"

namespace tessera::lm {
namespace {

kernels::KvType type_of(const LoadRequest& request) {
  if (request.kv_bitwidth == 8) return kernels::KvType::int8;
  if (request.dtype == kernels::Real::f32) return kernels::KvType::f32;
  return request.dtype == kernels::Real::f16 ? kernels::KvType::f16 : kernels::KvType::bf16;
}

constexpr std::int64_t kCountBytes = 8;  // in front of a state: tokens that it has seen
constexpr std::int64_t kNoState = -1;

}  // namespace

DecoderCache::DecoderCache(const Description& description, const LoadRequest& request,
                           std::int64_t num_blocks, std::int64_t block_size,
                           std::shared_ptr<const Backend> backend, KvHeads which)
    : owner_(&description),
      num_blocks_(num_blocks),
      block_size_(block_size),
      first_layer_(request.first_layer),
      last_layer_(request.last_layer),
      backend_(std::move(backend)) {
  if (num_blocks < 1 || block_size < 1 || num_blocks > (std::int64_t{1} << 40) / block_size) {
    refuse(ErrorCode::out_of_range, "cache", "{} blocks of {} tokens", num_blocks, block_size);
  }
  const auto num_layers = static_cast<std::size_t>(description.shape.num_layers);
  arrays_.resize(num_layers);
  layers_.resize(num_layers);
  for (std::int64_t index = first_layer_; index < last_layer_; ++index) {
    const LayerShape& layer = description.shape.layer(index);
    if (layer.shares_kv) {
      layers_[static_cast<std::size_t>(index)] =
          layers_[static_cast<std::size_t>(kv_source(description.shape, index))];
      continue;
    }
    std::vector<Array>& arrays = arrays_[static_cast<std::size_t>(index)];
    if (layer.state) {
      const std::int64_t numbers =
          std::visit([](const auto& form) { return form.state_numbers(); }, *description.state);
      state_bytes_ = kCountBytes + 4 * numbers;
      add(arrays, num_blocks * state_bytes_);
      for (std::int32_t block = 0; block < num_blocks; ++block)
        std::memcpy(arrays.back().block(block), &kNoState, kCountBytes);
    }
    // A latent is one head for all, and its values are its keys.
    const auto latent = latent_widths(layer);
    const std::int64_t heads = latent                  ? 1
                               : which == KvHeads::own ? own_kv_heads(request, layer)
                                                       : heads_elsewhere(request, layer);
    kernels::KvBlocks blocks{nullptr,
                             nullptr,
                             nullptr,
                             nullptr,
                             type_of(request),
                             num_blocks,
                             block_size,
                             heads,
                             latent ? latent->kept() : layer.head_dim};
    if (heads == 0) {
      layers_[static_cast<std::size_t>(index)] = blocks;
      continue;
    }
    const std::int64_t bytes = kernels::kv_bytes(blocks);
    if (bytes <= 0) refuse(ErrorCode::unsupported, "cache", "heads of {} features", layer.head_dim);
    blocks.keys = add(arrays, bytes);
    blocks.values = latent ? blocks.keys : add(arrays, bytes);
    if (blocks.type == kernels::KvType::int8) {
      const std::int64_t scales = num_blocks * block_size * heads * 4;
      blocks.key_scale = static_cast<float*>(add(arrays, scales));
      blocks.value_scale = latent ? blocks.key_scale : static_cast<float*>(add(arrays, scales));
    }
    layers_[static_cast<std::size_t>(index)] = blocks;
  }
}

void* DecoderCache::add(std::vector<Array>& arrays, std::int64_t bytes) {
  try {
    arrays.push_back({backend_->allocate(bytes), bytes / num_blocks_});
  } catch (const std::bad_alloc&) {
    refuse(ErrorCode::out_of_range, "cache",
           "keys and values of {} tokens take {} a layer, for which there is no memory; ask "
           "for fewer tokens, or kv_bitwidth 8",
           num_blocks_ * block_size_, format_bytes(2 * static_cast<double>(bytes)));
  }
  bytes_ += bytes;
  return arrays.back().memory.get();
}

float* DecoderCache::advance_state(std::int64_t index, const SequenceRows& rows) const {
  const Array& states = arrays_[static_cast<std::size_t>(index)].front();
  char* to = states.block(rows.to_block);
  if (rows.from_block < 0) {
    std::memset(to, 0, static_cast<std::size_t>(state_bytes_));
  } else {
    const char* from = states.block(rows.from_block);
    std::int64_t seen = kNoState;
    std::memcpy(&seen, from, kCountBytes);
    if (seen != rows.context_tokens) {
      refuse(ErrorCode::unsupported, "context_tokens",
             "a sequence goes on after {} tokens, and the state of layer {} in its block is that "
             "of after {}; models with a state do not go back, and share a prompt's blocks only "
             "where a step has ended",
             rows.context_tokens, index, seen);
    }
    if (from != to) std::memcpy(to, from, static_cast<std::size_t>(state_bytes_));
  }
  const std::int64_t after = rows.context_tokens + rows.count;
  std::memcpy(to, &after, kCountBytes);
  return reinterpret_cast<float*>(to + kCountBytes);
}

// A part of each array after the other: the blocks that come first in all layers, which are handed
// out first.
void DecoderCache::touch(const std::stop_token& stop) {
  if (!backend_->is_host()) return;
  constexpr std::int64_t kAtOnce = 2 << 20;
  std::int64_t longest = 0;
  for (const std::vector<Array>& arrays : arrays_) {
    for (const Array& array : arrays) {
      advise_huge_pages(array.block(0), array.block_bytes * num_blocks_);
      longest = std::max(longest, array.block_bytes * num_blocks_);
    }
  }
  for (std::int64_t at = 0; at < longest; at += kAtOnce) {
    for (const std::vector<Array>& arrays : arrays_) {
      for (const Array& array : arrays) {
        if (stop.stop_requested()) return;
        make_resident(array.block(0) + at, std::min(kAtOnce, array.block_bytes * num_blocks_ - at));
      }
    }
  }
}

void DecoderCache::check_block(std::int32_t block) const {
  if (block >= 0 && block < num_blocks_) return;
  refuse(ErrorCode::out_of_range, "cache", "block {} is not one of its {}", block, num_blocks_);
}

std::int64_t DecoderCache::block_bytes(std::int64_t first, std::int64_t last) const {
  if (first < first_layer_ || last < first || last > last_layer_) {
    refuse(ErrorCode::out_of_range, "cache", "layers [{}, {}) are asked for, and it has [{}, {})",
           first, last, first_layer_, last_layer_);
  }
  std::int64_t bytes = 0;
  for (std::int64_t index = first; index < last; ++index) {
    for (const Array& array : arrays_[static_cast<std::size_t>(index)]) bytes += array.block_bytes;
  }
  return bytes;
}

// Calls f(where a block is, its bytes, bytes in front of it) for what `read` and `write` move,
// in its order, once all of it is known to fit.
template <class F>
void DecoderCache::each(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
                        std::size_t bytes, const F& f) const {
  const std::int64_t wanted = std::ssize(blocks) * block_bytes(first, last);
  for (const std::int32_t block : blocks) check_block(block);
  if (static_cast<std::int64_t>(bytes) != wanted) {
    refuse(ErrorCode::out_of_range, "cache", "{} blocks of layers [{}, {}) are {} bytes, not {}",
           blocks.size(), first, last, wanted, bytes);
  }
  std::int64_t before = 0;
  for (std::int64_t index = first; index < last; ++index) {
    for (const std::int32_t block : blocks) {
      for (const Array& array : arrays_[static_cast<std::size_t>(index)]) {
        f(array.block(block), array.block_bytes, before);
        before += array.block_bytes;
      }
    }
  }
}

void DecoderCache::read(std::span<const std::int32_t> blocks, std::int64_t first, std::int64_t last,
                        std::span<std::byte> out) const {
  each(blocks, first, last, out.size(), [&](const char* at, std::int64_t bytes, auto before) {
    backend_->download(at, bytes, out.data() + before);
  });
}

void DecoderCache::write(std::span<const std::int32_t> blocks, std::int64_t first,
                         std::int64_t last, std::span<const std::byte> in) {
  each(blocks, first, last, in.size(), [&](char* at, std::int64_t bytes, auto before) {
    backend_->write(in.data() + before, bytes, at);
  });
}

void DecoderCache::copy(std::int32_t from, std::int32_t to) {
  check_block(from);
  check_block(to);
  if (from == to) return;
  for (const std::vector<Array>& arrays : arrays_) {
    for (const Array& array : arrays)
      backend_->copy(array.block(from), array.block_bytes, array.block(to));
  }
}

}  // namespace tessera::lm
