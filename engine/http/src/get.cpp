#include "get.h"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <string_view>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace beast_http = boost::beast::http;

struct Target {
  std::string host, port, path;
};

[[noreturn]] void refuse_url(ErrorCode code, const std::string& url, std::string_view why) {
  throw Error(code, fmt::format("{}: {}", quote(url), why), url);
}

Target target_of(const std::string& url, const std::string& path) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) {
    refuse_url(ErrorCode::unsupported, url,
               "https is not spoken here; `curl -o metrics.txt URL` makes a file of it");
  }
  const bool odd = url.find_first_of("\r\n\t ") != std::string::npos ||
                   url.find('@') != std::string::npos || url.find('\0') != std::string::npos;
  if (!url.starts_with(kScheme) || odd) {
    refuse_url(ErrorCode::invalid_argument, url,
               "a URL as in http://host:8000/metrics belongs here");
  }
  const std::string rest = url.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  std::string authority = rest.substr(0, slash);
  Target target{"", "80", slash == std::string::npos ? path : rest.substr(slash)};
  if (target.path == "/") target.path = path;
  const std::size_t bracket = authority.find(']');  // of an IPv6 address
  const std::size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    target.port = authority.substr(colon + 1);
    authority.resize(colon);
  }
  const bool digits = !target.port.empty() && target.port.size() <= 5 &&
                      target.port.find_first_not_of("0123456789") == std::string::npos;
  if (authority.empty() || !digits) {
    refuse_url(ErrorCode::invalid_argument, url,
               "a host belongs behind http://, and digits behind its colon");
  }
  target.host = authority.starts_with('[') ? authority.substr(1, authority.size() - 2) : authority;
  return target;
}

/// One exchange, in whose steps an error ends it.
class Exchange {
 public:
  Exchange(Target target, std::size_t max_bytes)
      : target_(std::move(target)), stream_(context_), resolver_(context_) {
    request_.method(beast_http::verb::get);
    request_.target(target_.path);
    request_.version(11);
    request_.set(beast_http::field::host, target_.host);
    request_.set(beast_http::field::user_agent, "tessera");
    request_.set(beast_http::field::connection, "close");
    parser_.body_limit(max_bytes);
  }

  /// Absent error: the answer is whole.
  beast::error_code run(double time_limit_s) {
    const auto limit = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(time_limit_s));
    stream_.expires_after(limit);
    resolver_.async_resolve(target_.host, target_.port, [this](auto error, auto found) {
      if (failed(error)) return;
      stream_.async_connect(found, [this](auto failure, const auto&) {
        if (!failed(failure)) write();
      });
    });
    context_.run_for(limit);
    if (!ended_) error_ = beast::error::timeout;
    return error_;
  }

  const auto& answer() const { return parser_.get(); }

 private:
  bool failed(beast::error_code error) {
    if (error) end(error);
    return ended_;
  }
  void end(beast::error_code error) {
    error_ = error;
    ended_ = true;
  }
  void write() {
    beast_http::async_write(stream_, request_, [this](auto error, std::size_t) {
      if (failed(error)) return;
      beast_http::async_read(stream_, buffer_, parser_,
                             [this](auto failure, std::size_t) { end(failure); });
    });
  }

  Target target_;
  asio::io_context context_;
  beast::tcp_stream stream_;
  asio::ip::tcp::resolver resolver_;
  beast_http::request<beast_http::empty_body> request_;
  beast::flat_buffer buffer_;
  beast_http::response_parser<beast_http::string_body> parser_;
  beast::error_code error_;
  bool ended_ = false;
};

}  // namespace

std::string get(const std::string& url, const std::string& path, double time_limit_s,
                std::size_t max_bytes) {
  Exchange exchange(target_of(url, path), max_bytes);
  const beast::error_code error = exchange.run(time_limit_s);
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::io, fmt::format("{}: {}", quote(url), why), url);
  };
  if (error == beast_http::error::body_limit) {
    fail(fmt::format("it answers with more than {} bytes", max_bytes));
  } else if (error == beast::error::timeout) {
    fail(fmt::format("no whole answer within {:g} s", time_limit_s));
  } else if (error) {
    fail(fmt::format("nothing answers: {}; does the server run, and is the port right?",
                     error.message()));
  }
  const auto& answer = exchange.answer();
  if (answer.result() != beast_http::status::ok) {
    fail(fmt::format("it answers with status {}, not 200", answer.result_int()));
  }
  return answer.body();
}

}  // namespace tessera::http
