#include "tessera/run/handshake.h"

#include <fmt/format.h>
#include <sodium.h>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/run/record_body.h"

namespace tessera::run {
namespace {

void start_sodium() {
  if (sodium_init() < 0) throw Error(ErrorCode::io, "the system has no source of random numbers");
}

template <std::size_t N>
std::string hex(const unsigned char (&bytes)[N]) {
  std::string text(2 * N + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes, N);
  text.pop_back();
  return text;
}

}  // namespace

std::string make_nonce() {
  start_sodium();
  unsigned char bytes[32];
  randombytes_buf(bytes, sizeof bytes);
  return hex(bytes);
}

std::string mac_of(const std::string& secret, const std::string& side, const Hello& hello,
                   const std::string& nonce) {
  start_sodium();
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", side, kProtocol, hello.build, hello.rank,
                  hello.port, hello.process, hello.nonce, nonce);
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(secret.data()),
                              secret.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()),
                                text.size());
  unsigned char mac[crypto_auth_hmacsha256_BYTES];
  crypto_auth_hmacsha256_final(&state, mac);
  return hex(mac);
}

bool is_same_mac(const std::string& a, const std::string& b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

namespace {

template <class T>
T record_due(const Message& message, Kind kind) {
  if (message.header.kind != kind) {
    refuse("message", "{} came where {} is due", name_of(message.header.kind), name_of(kind));
  }
  return record_of<T>(message);
}

template <class Record>
Greeting::Saying saying(Kind kind, const Record& record) {
  return {kind, record_body(record)};
}

}  // namespace

Greeting Greeting::opening(const std::string& secret, Hello mine) {
  Greeting greeting;
  greeting.secret_ = secret;
  greeting.opens_ = true;
  greeting.hello_ = std::move(mine);
  greeting.hello_.nonce = make_nonce();
  return greeting;
}

Greeting Greeting::accepting(const std::string& secret, const std::string& build) {
  Greeting greeting;
  greeting.secret_ = secret;
  greeting.build_ = build;
  return greeting;
}

Greeting::Saying Greeting::first() const { return saying(Kind::hello, hello_); }

void Greeting::check_mac(const char* side, const std::string& mac) const {
  if (is_same_mac(mac, mac_of(secret_, side, hello_, nonce_))) return;
  throw Error(ErrorCode::invalid_argument, "does not know the secret of this run");
}

std::optional<Greeting::Saying> Greeting::take(const Message& message) {
  if (opens_) {
    const auto welcome = record_due<Welcome>(message, Kind::welcome);
    nonce_ = welcome.nonce;
    knows_ = true;
    check_mac("accept", welcome.mac);
    over_ = true;
    return saying(Kind::proof, Proof{mac_of(secret_, "open", hello_, nonce_)});
  }
  if (knows_) {
    check_mac("open", record_due<Proof>(message, Kind::proof).mac);
    over_ = true;
    return std::nullopt;
  }
  hello_ = record_due<Hello>(message, Kind::hello);
  knows_ = true;
  if (hello_.build != build_) {
    throw Error(ErrorCode::unsupported, fmt::format("is of build {}, the run of build {}",
                                                    quote(hello_.build), quote(build_)));
  }
  nonce_ = make_nonce();
  return saying(Kind::welcome, Welcome{nonce_, mac_of(secret_, "accept", hello_, nonce_)});
}

std::string digest_of(const std::string& text) {
  start_sodium();
  unsigned char digest[crypto_generichash_BYTES];
  crypto_generichash(digest, sizeof digest, reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  return hex(digest);
}

std::vector<std::byte> body_of(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.body.data()), message.body.size()};
}

}  // namespace tessera::run
