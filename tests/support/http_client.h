#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/json.h"

/// HTTP as a client that knows no library speaks it.
namespace tessera::test::http {

/// A client of one connection, byte by byte.
class Client {
 public:
  explicit Client(std::int32_t port, int receive_buffer = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  /// False where the server does not take it any more.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// What comes until `enough` of it, the end of the connection, or the time is over.
  std::string receive(const std::function<bool(const std::string&)>& enough, int most_ms = 20'000) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(most_ms);
    while (!enough(in_)) {
      pollfd waits{socket_, POLLIN, 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      if (left.count() <= 0 || ::poll(&waits, 1, static_cast<int>(left.count())) <= 0) break;
      char piece[65536];
      const ssize_t size = ::recv(socket_, piece, sizeof piece, 0);
      if (size <= 0) {
        is_ended_ = true;
        break;
      }
      in_.append(piece, static_cast<std::size_t>(size));
    }
    return std::exchange(in_, {});
  }
  std::string receive_all(int most_ms = 20'000) {
    return receive([](const std::string&) { return false; }, most_ms);
  }
  bool is_ended() const { return is_ended_; }

 private:
  int socket_ = -1;
  std::string in_;
  bool is_ended_ = false;
};

struct Answer {
  int status = 0;
  std::string head, body;
  Json json() const { return Json::parse(body); }
  std::string param() const { return shown_json(json()["error"]["param"]); }
  std::string message() const { return json()["error"]["message"].get<std::string>(); }
};

inline std::string unchunked(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line = text.find("\r\n", at);
    if (line == std::string::npos) break;
    const std::size_t size = std::stoul(text.substr(at, line - at), nullptr, 16);
    if (size == 0) break;
    out += text.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  return out;
}

inline Answer answer_of(const std::string& text) {
  Answer answer;
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string::npos || text.size() < 12) return answer;
  answer.status = std::stoi(text.substr(9, 3));
  answer.head = text.substr(0, end);
  answer.body = text.substr(end + 4);
  if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos)
    answer.body = unchunked(answer.body);
  return answer;
}

/// The data of a stream of events, one each; the last is [DONE] where it ended well.
inline std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    EXPECT_EQ(body.compare(at, 6, "data: "), 0) << body.substr(at, 40);
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

inline std::string post(const std::string& path, const std::string& body,
                        const std::string& fields = {}) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: "
      "close\r\n{}Content-Length: {}\r\n\r\n{}",
      path, fields, body.size(), body);
}

inline std::string get(const std::string& path, const std::string& fields = {}) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n", path,
                     fields);
}

}  // namespace tessera::test::http
