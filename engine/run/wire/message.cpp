#include "tessera/run/message.h"

#include <cstring>

#include "tessera/core/error.h"

namespace tessera::run {
namespace {

constexpr std::uint32_t kMagic = 0x41525354;  // "TSRA"
constexpr std::uint64_t kKib = 1024, kMib = kKib * kKib;

struct WireHeader {
  std::uint32_t magic;
  std::uint16_t protocol, kind;
  std::uint32_t epoch, zero;
  std::int64_t step;
  std::uint64_t length;
};
static_assert(sizeof(WireHeader) == kHeaderBytes);

}  // namespace

std::uint64_t most_bytes(Kind kind) {
  switch (kind) {
    case Kind::hello:
    case Kind::welcome:
    case Kind::proof:
    case Kind::refused:
      return 4 * kKib;
    case Kind::ping:
    case Kind::pong:
      return 64;
    case Kind::ready:
    case Kind::stop:
    case Kind::taken:
      return 0;
    case Kind::loaded:
    case Kind::failed:
    case Kind::reset:
    case Kind::group:
    case Kind::unlinked:
      return 256 * kKib;
    case Kind::load:
    case Kind::give:
      return 16 * kMib;
    case Kind::tokens:
      return 64 * kMib;
    case Kind::step:
      return 256 * kMib;
    case Kind::hidden:
    case Kind::blocks:
    case Kind::attend:
    case Kind::attended:
      return 2048 * kMib;
  }
  return 0;
}

std::array<std::byte, kHeaderBytes> encode(const Header& header) {
  const WireHeader wire{kMagic,       kProtocol, static_cast<std::uint16_t>(header.kind),
                        header.epoch, 0,         header.step,
                        header.length};
  std::array<std::byte, kHeaderBytes> bytes;
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

Header decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  WireHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kMagic) refuse("message", "what came is none of a run's");
  if (wire.protocol != kProtocol) {
    refuse(ErrorCode::unsupported, "message",
           "the other side speaks protocol {}, this one {}: both need the same build",
           wire.protocol, kProtocol);
  }
  const auto kind = static_cast<Kind>(wire.kind);
  if (wire.kind < static_cast<std::uint16_t>(Kind::hello) ||
      wire.kind > static_cast<std::uint16_t>(Kind::taken) || wire.zero != 0) {
    refuse("message", "there is no kind {}", wire.kind);
  }
  if (wire.length > most_bytes(kind)) {
    refuse("message", "{} of {} bytes, at most {} are taken", name_of(kind), wire.length,
           most_bytes(kind));
  }
  return {kind, wire.epoch, wire.step, wire.length};
}

std::size_t BodyReader::length_of_list(std::size_t least_item_bytes) {
  const auto length = get<std::uint64_t>();
  if (length > left_.size() / least_item_bytes) fail("ends within a list");
  return static_cast<std::size_t>(length);
}

void BodyReader::copy(void* to, std::size_t size) {
  if (size > left_.size()) fail("ends too early");
  if (size > 0) std::memcpy(to, left_.data(), size);
  left_ = left_.subspan(size);
}

void BodyReader::finish() const {
  if (!left_.empty()) fail("has bytes that nothing names");
}

void BodyReader::fail(const char* what) const { refuse("message", "{} {}", name_of(kind_), what); }

}  // namespace tessera::run
