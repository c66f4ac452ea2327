#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"

/// What processes of a run say to each other: a header of 32 bytes, and a body.
namespace tessera::run {

/// Of both sides of a link; another one is refused.
inline constexpr std::uint16_t kProtocol = 2;

enum class Kind : std::uint16_t {
  hello = 1,  ///< who opens a link: JSON of Hello
  welcome,    ///< the other side's answer
  proof,      ///< that the opener knows the secret too
  load,       ///< to a worker: which part of which model (LoadOrder)
  loaded,     ///< from it: ready (Loaded)
  reset,      ///< to a worker: steps under way are lost; a new epoch begins (ResetOrder)
  ready,      ///< from it: it is there
  step,       ///< to a worker (StepOrder)
  hidden,     ///< from a stage to the next (HiddenStates)
  tokens,     ///< from the last stage to the master (StepTokens)
  ping,       ///< the sender's clock
  pong,       ///< its copy, and the receiver's clock
  stop,       ///< to a worker: end
  failed,     ///< from a worker: why it ends (Failure)
  group,      ///< between workers, by the master: how a process group finds itself (GroupKey)
  unlinked,   ///< from a worker: its link to one that it feeds is gone (Unlinked)
  refused,    ///< to who would open a link: why it is not opened, in words
  attend,     ///< from a stage to who attends for it: queries, keys and values (HeadRows)
  attended,   ///< back: what attention makes of them (HeadRows)
  give,       ///< to a worker: blocks that go to an engine which decodes (GiveOrder)
  blocks,     ///< from it to a worker of that engine: what they hold (Blocks)
  taken,      ///< from that one to the master: they are in its cache
};

/// Largest body of a kind, known before anything is allocated for one.
std::uint64_t most_bytes(Kind kind);

inline constexpr std::size_t kHeaderBytes = 32;

/// On the wire, in the order of bytes of x86 and ARM: magic "TSRA", protocol (16 bits), kind (16),
/// epoch (32), 0 (32), step (64), length (64).
struct Header {
  Kind kind = Kind::ping;
  std::uint32_t epoch = 0;  ///< of the run: one more after each recovery
  /// Of step, hidden, tokens, attend and attended; of give, blocks and taken the request.
  std::int64_t step = 0;
  std::uint64_t length = 0;  ///< bytes of the body

  friend bool operator==(const Header&, const Header&) = default;
};

std::array<std::byte, kHeaderBytes> encode(const Header& header);
/// @throws Error{invalid_argument} for another magic, kind or length than there can be,
/// Error{unsupported} for another protocol, with both numbers
Header decode_header(std::span<const std::byte, kHeaderBytes> bytes);

struct Message {
  Header header;
  std::vector<std::byte> body;
};

/// Bodies in binary: whole numbers and floats as they lie in memory, lists behind their length.
class BodyWriter {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(T value) { append(&value, sizeof value); }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put_list(std::span<const T> values) {
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size_bytes());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }

 private:
  void append(const void* data, std::size_t size) {
    if (size == 0) return;
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<std::byte> bytes_;
};

/// The same read back. @throws Error{invalid_argument} where the body ends too early, with its kind
class BodyReader {
 public:
  BodyReader(std::span<const std::byte> body, Kind kind) : left_(body), kind_(kind) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value;
    copy(&value, sizeof value);
    return value;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> std::vector<T> get_list() {
    std::vector<T> values(length_of_list(sizeof(T)));
    copy(values.data(), values.size() * sizeof(T));
    return values;
  }
  /// Of a list whose items are read one by one, of so many bytes at least each.
  std::size_t length_of_list(std::size_t least_item_bytes);
  std::span<const std::byte> rest() const { return left_; }
  /// Nothing may be left. @throws Error{invalid_argument}
  void finish() const;

 private:
  void copy(void* to, std::size_t size);
  [[noreturn]] void fail(const char* what) const;
  std::span<const std::byte> left_;
  Kind kind_;
};

}  // namespace tessera::run

namespace tessera {

template <>
inline constexpr auto kEnumNames<run::Kind> =
    enum_names<run::Kind>({{run::Kind::hello, "hello"},       {run::Kind::welcome, "welcome"},
                           {run::Kind::proof, "proof"},       {run::Kind::load, "load"},
                           {run::Kind::loaded, "loaded"},     {run::Kind::reset, "reset"},
                           {run::Kind::ready, "ready"},       {run::Kind::step, "step"},
                           {run::Kind::hidden, "hidden"},     {run::Kind::tokens, "tokens"},
                           {run::Kind::group, "group"},       {run::Kind::unlinked, "unlinked"},
                           {run::Kind::refused, "refused"},   {run::Kind::attend, "attend"},
                           {run::Kind::attended, "attended"}, {run::Kind::give, "give"},
                           {run::Kind::blocks, "blocks"},     {run::Kind::taken, "taken"},
                           {run::Kind::ping, "ping"},         {run::Kind::pong, "pong"},
                           {run::Kind::stop, "stop"},         {run::Kind::failed, "failed"}});

}  // namespace tessera
