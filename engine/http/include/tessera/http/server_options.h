#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/record.h"

namespace tessera::http {

/// Where a server listens, and what it takes of clients at most.
struct ServerOptions {
  std::string host = "127.0.0.1";
  std::int32_t port = 8000;
  std::string served_model_name = {};  ///< empty: the folder's
  std::string api_key_file = {};
  std::string chat_template = {};
  std::string step_log = {};
  std::string report = {};
  std::int64_t max_waiting = 1024;
  std::int64_t max_connections = 16384;
  std::int64_t max_body_mib = 16;
  double request_timeout_s = 60;
  double shutdown_timeout_s = 30;
};

}  // namespace tessera::http

namespace tessera {

template <>
struct Fields<http::ServerOptions> {
  using O = http::ServerOptions;
  static constexpr auto list = std::tuple{
      field<&O::host>({.name = "host",
                       .doc = "Address to listen on; one that is not this machine's own loopback "
                              "needs a key",
                       .as_option = AsOption::defaulted}),
      field<&O::port>({.name = "port",
                       .doc = "Port to listen on; 0: one that is free",
                       .min = 0,
                       .max = 65535,
                       .as_option = AsOption::defaulted}),
      field<&O::served_model_name>(
          {.name = "served_model_name",
           .doc = "What clients call the model; left out: its folder's name"}),
      field<&O::api_key_file>(
          {.name = "api_key_file",
           .doc = "File that only its owner may read, with the key that clients have to show; left "
                  "out: $TESSERA_API_KEY, and without it none"}),
      field<&O::chat_template>(
          {.name = "chat_template",
           .doc = "File with a template for chats, in place of the model's own"}),
      field<&O::step_log>({.name = "step_log",
                           .doc = "File that gets every step at the end, for ts.replay and trace "
                                  "viewers; all is kept in memory until then"}),
      field<&O::report>({.name = "report",
                         .doc = "File that gets a page of what was served at the end; all is kept "
                                "in memory until then"}),
      field<&O::max_waiting>({.name = "max_waiting",
                              .doc = "Requests that wait for a seat at most; more are answered 503",
                              .unit = "requests",
                              .min = 0,
                              .max = 1e6,
                              .as_option = AsOption::defaulted}),
      field<&O::max_connections>({.name = "max_connections",
                                  .doc = "Connections at a time at most",
                                  .min = 1,
                                  .max = 1e6,
                                  .as_option = AsOption::defaulted}),
      field<&O::max_body_mib>({.name = "max_body_mib",
                               .doc = "Size of a request at most",
                               .unit = "MiB",
                               .min = 1,
                               .max = 1024,
                               .as_option = AsOption::defaulted}),
      field<&O::request_timeout_s>({.name = "request_timeout_s",
                                    .doc = "Until a request that has begun has come whole",
                                    .unit = "s",
                                    .min = 0.1,
                                    .max = 1e6,
                                    .as_option = AsOption::defaulted}),
      field<&O::shutdown_timeout_s>(
          {.name = "shutdown_timeout_s",
           .doc = "At SIGTERM: until requests under way are ended with an error",
           .unit = "s",
           .min = 0,
           .max = 1e6,
           .as_option = AsOption::defaulted})};
};

}  // namespace tessera
