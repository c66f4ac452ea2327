#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/core/record.h"
#include "tessera/run/transport.h"

/// How two processes find out that they belong to the same run, before anything else is said: both
/// show a MAC over both sides' nonces (HMAC-SHA-256), which only who has the secret can make.
/// Nothing is encrypted.
namespace tessera::run {

struct Hello {
  std::string build;            ///< version and commit; both sides need the same
  std::int32_t rank = kMaster;  ///< of who opens the link
  std::string nonce;            ///< 32 bytes, in hexadecimal digits
  std::int32_t port = 0;        ///< where it listens itself
  std::int64_t process = 0;     ///< its id
};

struct Welcome {
  std::string nonce, mac;
};

struct Proof {
  std::string mac;
};

/// 32 bytes that nobody can guess, in hexadecimal digits.
std::string make_nonce();
/// @param side "open" or "accept": what one side shows is no answer for the other
std::string mac_of(const std::string& secret, const std::string& side, const Hello& hello,
                   const std::string& nonce);
/// In a time that does not depend on where they differ.
bool is_same_mac(const std::string& a, const std::string& b);

/// One side of a handshake, whatever carries it.
class Greeting {
 public:
  struct Saying {
    Kind kind = Kind::hello;
    std::vector<std::byte> body;
  };
  /// Of who opens the link, with `mine`, whose nonce is made here; and of who accepts it.
  static Greeting opening(const std::string& secret, Hello mine);
  static Greeting accepting(const std::string& secret, const std::string& build);

  /// What is said first, by who opens.
  Saying first() const;
  /// What the other side said; what to answer, if anything.
  /// @throws Error{invalid_argument, unsupported} for a peer of another run or build
  std::optional<Saying> take(const Message& message);
  bool is_over() const { return over_; }
  bool opens() const { return opens_; }
  /// Whether the other side has said who it is.
  bool knows_peer() const { return knows_; }
  /// Of who opens; from its first message on.
  const Hello& hello() const { return hello_; }

 private:
  void check_mac(const char* side, const std::string& mac) const;
  std::string secret_, build_;
  bool opens_ = false, knows_ = false, over_ = false;
  Hello hello_;
  std::string nonce_;  ///< of who accepts
};

/// Of a text, in hexadecimal digits (BLAKE2b, 32 bytes).
std::string digest_of(const std::string& text);

/// JSON as a body.
std::vector<std::byte> body_of(const std::string& text);
std::string text_of(const Message& message);

}  // namespace tessera::run

namespace tessera {

template <>
struct Fields<run::Hello> {
  using H = run::Hello;
  static constexpr auto list = std::tuple{
      field<&H::build>({.name = "build", .doc = "Version of the program"}),
      field<&H::rank>(
          {.name = "rank", .doc = "Of the sender; -1: the master", .min = -1, .max = 65535}),
      field<&H::nonce>({.name = "nonce", .doc = "A random number, in hexadecimal digits"}),
      field<&H::port>({.name = "port", .doc = "Where the sender listens", .min = 0, .max = 65535}),
      field<&H::process>({.name = "process", .doc = "Its process id", .min = 0, .max = 1e15})};
};

template <>
struct Fields<run::Welcome> {
  using W = run::Welcome;
  static constexpr auto list =
      std::tuple{field<&W::nonce>({.name = "nonce", .doc = "A random number"}),
                 field<&W::mac>({.name = "mac", .doc = "Over both"})};
};

template <>
struct Fields<run::Proof> {
  static constexpr auto list =
      std::tuple{field<&run::Proof::mac>({.name = "mac", .doc = "Over both, of the other side"})};
};

}  // namespace tessera
