#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/core/units.h"
#include "tessera/lm/language_model.h"
#include "tessera/quant/scheme.h"
#include "tessera/run/transport.h"

/// What master and workers tell each other before and after the steps, as JSON.
namespace tessera::run {

/// What a stage sends to another rank.
enum class Sent {
  hidden,  ///< hidden states, to the next stage
  heads,   ///< queries, keys and values, to a rank that attends for it and answers
  blocks,  ///< the cache of prompts that are read, to a stage of an engine that decodes
};

struct Feed {
  std::int32_t rank = 0;
  std::string host;
  std::int32_t port = 0;
  Sent sent = Sent::hidden;
};

/// Another device and another link than there are: what a worker computes ends no earlier than its
/// time here over the speed, what comes to it is held until latency and bytes over rate have
/// passed.
struct Emulation {
  double speed = 1;
  double link_bytes_per_s = 0;  ///< 0: the link is what it is
  double link_latency_s = 0;

  Nanoseconds stretched(Nanoseconds computed) const {
    return static_cast<Nanoseconds>(static_cast<double>(computed) / speed);
  }
  Nanoseconds link_time(std::int64_t bytes) const {
    const double s = link_bytes_per_s > 0 ? static_cast<double>(bytes) / link_bytes_per_s : 0;
    return static_cast<Nanoseconds>((link_latency_s + s) * kSecond);
  }
};

inline constexpr std::int64_t kMostBlockTokens = 65536;  ///< of a block of a stage's cache

/// Which part of which model a worker runs, with which memory.
struct LoadOrder {
  std::string path;         ///< folder or file, as this machine names it
  std::string fingerprint;  ///< of what the master found there (model_fingerprint)
  kernels::Real dtype = kernels::Real::f32;
  std::vector<std::int32_t> bitwidths;  ///< [num_layers] of the model; 0: as stored
  quant::Method method = quant::Method::rtn;
  quant::Scheme scheme;
  std::int32_t activation_bitwidth = 16;
  bool int8 = false;
  std::string statistics;
  std::int32_t kv_bitwidth = 16;
  std::string device = "cpu";
  std::int32_t threads = 0;
  std::vector<std::int32_t> cores;  ///< of the machine that it keeps to; empty: all
  std::int64_t first_layer = 0, last_layer = 0;
  bool with_embedding = false, with_head = false;
  std::int64_t kv_blocks = 1, block_size = lm::kBlockTokens;
  std::int64_t stage = 0;                          ///< 0-based, of its engine
  std::int32_t tensor_rank = 0, tensor_ranks = 1;  ///< its part of every layer
  std::string shared;                              ///< SharedRanks::path, where there are several
  double attention_elsewhere = 0;                  ///< ratio of its KV heads that another rank has
  bool attends = false;                            ///< it is that rank: no layers, these heads
  Emulation emulated;                              ///< its device, and the links to it
  std::vector<std::int32_t> from;                  ///< rank that feeds it; none: the first stage
  std::vector<Feed> feeds;                         ///< whom it feeds; none: the last stage
  std::vector<std::int32_t> group;                 ///< that hidden states go through; none: TCP
  std::string host;                                ///< where the others reach it
  kernels::Real activation_dtype = kernels::Real::f32;  ///< of hidden states that it sends
  std::int32_t epoch = 0;
};

/// A worker is ready.
struct Loaded {
  double load_s = 0;
  std::int64_t weight_bytes = 0, kv_cache_bytes = 0;
  std::int64_t before_bytes = 0;    ///< anonymous memory of the process before it loaded
  std::int64_t resident_bytes = 0;  ///< and now
  std::int64_t peak_bytes = 0;      ///< at most so far, what it maps of the model's file aside
  std::int64_t hidden_size = 0;
  std::int64_t layers_read = 0;  ///< of the file; others it had already
};

/// Steps under way are lost, and what caches hold.
struct ResetOrder {
  std::string shared;  ///< as LoadOrder has it, anew
  std::vector<std::int32_t> from;
  std::vector<Feed> feeds;
  std::int32_t epoch = 0;
};

/// Why a worker ends, or cannot begin.
struct Failure {
  std::string code = "internal", message, where;
};

/// What became of a worker's link to one that it feeds.
struct Unlinked {
  std::int32_t rank = 0;
  std::string why;
};

/// A part's request as the whole model's, and back. All layers are quantised alike but for their
/// bitwidths, as read_request of ts.language_model has it.
LoadOrder load_order_of(const lm::LoadRequest& request);
lm::LoadRequest request_of(const LoadOrder& order);

/// A digest of name, size and beginning of each file of a model: a worker that finds others there
/// has another model. @throws Error{not_found, io}
std::string model_fingerprint(const std::string& path);

}  // namespace tessera::run

namespace tessera {

template <>
inline constexpr auto kEnumNames<run::Sent> = enum_names<run::Sent>(
    {{run::Sent::hidden, "hidden"}, {run::Sent::heads, "heads"}, {run::Sent::blocks, "blocks"}});

namespace run::detail {
constexpr FieldSpec number(std::string_view name, std::string_view doc, double min, double max,
                           std::string_view unit = {}) {
  return {.name = name, .doc = doc, .unit = unit, .min = min, .max = max};
}
constexpr FieldSpec bytes(std::string_view name, std::string_view doc) {
  return number(name, doc, 0, 1e15, "bytes");
}
}  // namespace run::detail

template <>
struct Fields<run::Feed> {
  using F = run::Feed;
  static constexpr auto list =
      std::tuple{field<&F::rank>(run::detail::number("rank", "Whom it feeds", 0, 65535)),
                 field<&F::host>({.name = "host", .doc = "Where that listens"}),
                 field<&F::port>(run::detail::number("port", "Its port", 1, 65535)),
                 field<&F::sent>({.name = "sent", .doc = "What it is sent"})};
};

template <>
struct Fields<run::Emulation> {
  using E = run::Emulation;
  static constexpr auto list = std::tuple{
      field<&E::speed>(run::detail::number("speed", "Of this machine's", 1e-3, 1)),
      field<&E::link_bytes_per_s>(
          run::detail::number("link_bytes_per_s", "To it; 0: as it is", 0, 1e15, "bytes/s")),
      field<&E::link_latency_s>(run::detail::number("link_latency_s", "To it", 0, 1e3, "s"))};
};

template <>
struct Fields<run::LoadOrder> {
  using O = run::LoadOrder;
  static constexpr auto layer = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return run::detail::number(name, doc, 0, 1e6);
  };
  static constexpr auto list = std::tuple{
      field<&O::path>({.name = "path", .doc = "Folder or file of the model"}),
      field<&O::fingerprint>({.name = "fingerprint", .doc = "Of what the master found there"}),
      field<&O::dtype>({.name = "dtype", .doc = "Of weights of 16 bits"}),
      field<&O::bitwidths>({.name = "bitwidths",
                            .doc = "Of each layer of the model; 0: as stored",
                            .unit = "bits",
                            .min = 0,
                            .max = 16}),
      field<&O::method>({.name = "method", .doc = "How weights become codes"}),
      field<&O::scheme>({.name = "scheme", .doc = "Of codes"}),
      field<&O::activation_bitwidth>(run::detail::number(
          "activation_bitwidth", "Of what matrices in codes multiply", 8, 16, "bits")),
      field<&O::int8>({.name = "int8", .doc = "W8A8 for layers of 8 bits"}),
      field<&O::statistics>({.name = "statistics", .doc = "Calibration file"}),
      field<&O::kv_bitwidth>(
          run::detail::number("kv_bitwidth", "Of keys and values", 8, 16, "bits")),
      field<&O::device>({.name = "device", .doc = "cpu, torch, cuda, cuda:1"}),
      field<&O::threads>(run::detail::number("threads", "Of every step; 0: all", 0, 1024)),
      field<&O::cores>(run::detail::number("cores", "That it keeps to; none: all", 0, 65535)),
      field<&O::first_layer>(layer("first_layer", "First layer (0-based)")),
      field<&O::last_layer>(layer("last_layer", "The first one behind it")),
      field<&O::with_embedding>({.name = "with_embedding", .doc = "Whether tokens come to it"}),
      field<&O::with_head>({.name = "with_head", .doc = "Whether it samples"}),
      field<&O::kv_blocks>(run::detail::number("kv_blocks", "Blocks of its cache", 1, 1e9)),
      field<&O::block_size>(
          run::detail::number("block_size", "Of a block", 1, run::kMostBlockTokens, "tokens")),
      field<&O::stage>(layer("stage", "Its stage (0-based)")),
      field<&O::tensor_rank>(layer("tensor_rank", "Its part of every layer (0-based)")),
      field<&O::tensor_ranks>(run::detail::number("tensor_ranks", "Parts of a layer", 1, 1024)),
      field<&O::shared>({.name = "shared", .doc = "Memory in which the parts' sums meet"}),
      field<&O::attention_elsewhere>(run::detail::number(
          "attention_elsewhere", "Ratio of its KV heads that another rank has", 0, 1)),
      field<&O::attends>({.name = "attends", .doc = "Whether it is that rank"}),
      field<&O::emulated>({.name = "emulated", .doc = "Its device and the links to it"}),
      field<&O::from>(run::detail::number("from", "Rank that feeds it", 0, 65535)),
      field<&O::feeds>({.name = "feeds", .doc = "Whom it feeds"}),
      field<&O::group>(run::detail::number(
          "group", "Ranks whose hidden states go through a process group; none: over TCP", 0,
          65535)),
      field<&O::host>({.name = "host", .doc = "Where the others reach it"}),
      field<&O::activation_dtype>({.name = "activation_dtype", .doc = "Of hidden states it sends"}),
      field<&O::epoch>(run::detail::number("epoch", "Of the run", 0, 2e9))};
};

template <>
struct Fields<run::Loaded> {
  using L = run::Loaded;
  static constexpr auto list = std::tuple{
      field<&L::load_s>(run::detail::number("load_s", "Until it was ready", 0, kHuge, "s")),
      field<&L::weight_bytes>(run::detail::bytes("weight_bytes", "Of its weights")),
      field<&L::kv_cache_bytes>(run::detail::bytes("kv_cache_bytes", "Of its cache")),
      field<&L::before_bytes>(
          run::detail::bytes("before_bytes", "Anonymous memory before it loaded")),
      field<&L::resident_bytes>(run::detail::bytes("resident_bytes", "Anonymous memory")),
      field<&L::peak_bytes>(run::detail::bytes("peak_bytes", "Anonymous memory at most so far")),
      field<&L::hidden_size>(run::detail::number("hidden_size", "Of the model", 1, 1e6)),
      field<&L::layers_read>(run::detail::number("layers_read", "Those it had aside", 0, 1e6))};
};

template <>
struct Fields<run::ResetOrder> {
  using R = run::ResetOrder;
  static constexpr auto list = std::tuple{
      field<&R::shared>({.name = "shared", .doc = "Memory in which the parts' sums meet"}),
      field<&R::from>(run::detail::number("from", "Rank that feeds it", 0, 65535)),
      field<&R::feeds>({.name = "feeds", .doc = "Whom it feeds"}),
      field<&R::epoch>(run::detail::number("epoch", "Of the run", 0, 2e9))};
};

template <>
struct Fields<run::Failure> {
  using F = run::Failure;
  static constexpr auto list =
      std::tuple{field<&F::code>({.name = "code", .doc = "Kind of error"}),
                 field<&F::message>({.name = "message", .doc = "One line"}),
                 field<&F::where>({.name = "where", .doc = "Option or file"})};
};

template <>
struct Fields<run::Unlinked> {
  using U = run::Unlinked;
  static constexpr auto list =
      std::tuple{field<&U::rank>(run::detail::number("rank", "Whom it fed", 0, 65535)),
                 field<&U::why>({.name = "why", .doc = "One line"})};
};

}  // namespace tessera
