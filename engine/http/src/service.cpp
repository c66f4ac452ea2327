#include "service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "refusal.h"
#include "tessera/core/text.h"

namespace tessera::http {
namespace {

constexpr std::string_view kGets[] = {"/",          "/events",  "/health", "/metrics",
                                      "/v1/models", "/version", "/ping"};
constexpr std::string_view kPosts[] = {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                       "/detokenize"};
constexpr std::string_view kModels = "/v1/models/";
// What is on the page is all in it, and it asks nobody but this server.
constexpr std::string_view kPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr std::size_t kMostViewers = 16;
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

template <class Names>
bool is_one_of(const Names& names, std::string_view path) {
  return std::ranges::find(names, path) != std::end(names);
}

// In a time that says nothing of how much of it is right.
bool is_same_key(std::string_view given, std::string_view key) {
  unsigned char differs = given.size() != key.size() ? 1 : 0;
  for (std::size_t i = 0; i < given.size(); ++i)
    differs = static_cast<unsigned char>(differs | (given[i] ^ key[i % key.size()]));
  return differs == 0;
}

bool is_json(const RequestHead& head) {
  const std::string* type = head.find("content-type");
  if (type == nullptr) return false;
  std::string media = lower(type->substr(0, type->find(';')));
  while (media.ends_with(' ')) media.pop_back();
  return media == "application/json";
}

}  // namespace

Service::Service(HttpServer& server, Engine& engine, const Premises& premises, Metrics& metrics,
                 Options options)
    : server_(server),
      engine_(engine),
      premises_(premises),
      metrics_(metrics),
      options_(std::move(options)),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()) {}

void Service::refuse(Exchange& exchange, const Refusal& refusal) {
  HeaderFields fields;
  if (refusal.status() == 503) fields.emplace_back("Retry-After", "1");
  if (refusal.status() == 401) fields.emplace_back("WWW-Authenticate", "Bearer");
  exchange.respond(
      refusal.status(),
      error_body(refusal.status(), refusal.message(), refusal.where(), refusal.error_code()),
      "application/json", fields);
}

bool Service::is_allowed(const RequestHead& head, Exchange& exchange) const {
  if (options_.api_key.empty()) {
    const std::string* host = head.find("host");
    if (options_.listens_on.empty() || host == nullptr || is_own_host(*host, options_.listens_on))
      return true;
    refuse(exchange, Refusal(421, fmt::format("this server is not {}", quote(*host))));
    return false;
  }
  const std::string* given = head.find("authorization");
  constexpr std::string_view kBearer = "Bearer ";
  const bool fits = given != nullptr && given->starts_with(kBearer) &&
                    is_same_key(std::string_view(*given).substr(kBearer.size()), options_.api_key);
  if (!fits) refuse(exchange, Refusal(401, "the key is missing or wrong", "", "invalid_api_key"));
  return fits;
}

void Service::handle(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  const std::string& path = request.head.path;
  const std::string& method = request.head.method;
  const bool is_get = is_one_of(kGets, path) || path.starts_with(kModels);
  // The page itself says nothing; with a key, it asks for it before it shows anything.
  const bool is_open = path == "/health" || (path == "/" && !options_.api_key.empty());
  if (is_open && (method == "GET" || method == "HEAD")) return get(request.head, exchange);
  if (!is_allowed(request.head, *exchange)) return;
  if (!is_get && !is_one_of(kPosts, path))
    return refuse(*exchange, Refusal(404, fmt::format("there is nothing at {}", quote(path))));
  if (is_get ? method != "GET" && method != "HEAD" : method != "POST") {
    const std::string message = fmt::format("{} takes {} alone", path, is_get ? "GET" : "POST");
    return exchange->respond(405, error_body(405, message), "application/json",
                             {{"Allow", is_get ? "GET, HEAD" : "POST"}});
  }
  if (is_get) return get(request.head, exchange);
  if (!is_json(request.head))
    return refuse(*exchange, Refusal(415, "Content-Type has to be application/json"));
  post(std::move(request), std::move(exchange));
}

void Service::get(const RequestHead& head, const std::shared_ptr<Exchange>& to) {
  Exchange& exchange = *to;
  if (head.path == "/") {
    return exchange.respond(200, options_.page, "text/html; charset=utf-8",
                            {{"Content-Security-Policy", std::string(kPagePolicy)}});
  }
  if (head.path == "/events" && head.method == "HEAD") {
    exchange.begin_events();
    return exchange.finish();
  }
  if (head.path == "/events") return show_events(to);
  if (head.path == "/metrics")
    return exchange.respond(200, metrics_.text(engine_.state()), kMetricsType);
  if (head.path == "/version") return exchange.respond(200, R"({"version":"tessera"})");
  if (head.path == "/v1/models") return exchange.respond(200, models(false));
  if (head.path.starts_with(kModels)) {
    if (head.path.substr(kModels.size()) == premises_.name)
      return exchange.respond(200, models(true));
    return refuse(exchange, Refusal(404,
                                    fmt::format("there is no model {}; this server has {}",
                                                quote(head.path.substr(kModels.size())),
                                                quote(premises_.name)),
                                    "model", "model_not_found"));
  }
  if (is_draining_) return refuse(exchange, Refusal(503, "the server is ending"));
  if (!engine_.state().is_ready)
    return refuse(exchange, Refusal(503, "a stage is lost, and comes back"));
  exchange.respond(200, "", "text/plain");
}

// ------------------------------------------------------------------------------------- the live
// page

void Service::show_events(const std::shared_ptr<Exchange>& exchange) {
  if (is_draining_) return refuse(*exchange, Refusal(503, "the server is ending"));
  if (viewers_.size() == kMostViewers)
    return refuse(*exchange, Refusal(503, fmt::format("{} pages look already", kMostViewers)));
  exchange->on_left = [this, left = exchange.get()] { stop_showing(left); };
  exchange->begin_events();
  viewers_.push_back(exchange);
  // Each time anew, so that whoever comes sees something at once.
  engine_.watch([this](serving::EngineView view) {
    server_.post([this, view = std::move(view)] {
      const std::string event = fmt::format("data: {}\n\n", serving::json_line(view));
      for (const auto& viewer : std::vector(viewers_)) viewer->send(event);
    });
  });
}

void Service::stop_showing(const Exchange* exchange) {
  std::erase_if(viewers_, [&](const auto& viewer) { return viewer.get() == exchange; });
  if (viewers_.empty()) engine_.watch({});
}

std::string Service::models(bool one) const {
  Json model = Json::object();
  model["id"] = premises_.name;
  model["object"] = "model";
  model["created"] = created_;
  model["owned_by"] = "tessera";
  model["root"] = premises_.name;
  model["parent"] = nullptr;
  model["max_model_len"] = premises_.max_model_len;
  if (one) return shown_json(model);
  Json list = Json::object();
  list["object"] = "list";
  list["data"] = Json::array({std::move(model)});
  return shown_json(list);
}

// --------------------------------------------------------------------------------------
// completions

void Service::post(HttpRequest request, std::shared_ptr<Exchange> exchange) {
  if (is_draining_) return refuse(*exchange, Refusal(503, "the server is ending"));
  const std::string& path = request.head.path;
  if (path == "/tokenize" || path == "/detokenize")
    return answer_text(std::move(request.body), std::move(exchange), path == "/tokenize");
  if (num_coming_ + std::ssize(places_) >= options_.max_unfinished)
    return refuse(*exchange, Refusal(503, "the queue is full"));
  const auto endpoint = path == "/v1/completions" ? Endpoint::completions : Endpoint::chat;
  auto coming = std::make_shared<Coming>(Coming{std::move(exchange), Answering::Clock::now()});
  coming->exchange->on_left = [coming = coming.get()] { coming->has_left = true; };
  ++num_coming_;
  text_.push([this, endpoint, coming, body = std::move(request.body)]() mutable {
    std::shared_ptr<Prepared> prepared;
    std::shared_ptr<Refusal> why_not;
    try {
      prepared = std::make_shared<Prepared>(prepare(premises_, endpoint, body));
    } catch (const Refusal& refusal) {
      why_not = std::make_shared<Refusal>(refusal);
    } catch (const Error& error) {
      why_not = std::make_shared<Refusal>(400, error.message());
    } catch (const std::exception& error) {
      why_not = std::make_shared<Refusal>(500, error.what());
    }
    server_.post([this, coming = std::move(coming), prepared, why_not] {
      --num_coming_;
      coming->exchange->on_left = nullptr;
      if (!coming->has_left) {
        if (why_not) {
          refuse(*coming->exchange, *why_not);
        } else {
          admit(std::move(*prepared), *coming);
        }
      }
      coming->exchange.reset();
      look_whether_done();
    });
  });
}

void Service::answer_text(std::string body, std::shared_ptr<Exchange> exchange, bool encodes) {
  ++num_coming_;
  small_text_.push(
      [this, exchange = std::move(exchange), body = std::move(body), encodes]() mutable {
        std::string answer;
        std::shared_ptr<Refusal> why_not;
        try {
          answer = encodes ? tokenize(premises_, body) : detokenize(premises_, body);
        } catch (const Refusal& refusal) {
          why_not = std::make_shared<Refusal>(refusal);
        } catch (const std::exception& error) {
          why_not = std::make_shared<Refusal>(400, error.what());
        }
        server_.post([this, exchange = std::move(exchange), answer = std::move(answer), why_not] {
          --num_coming_;
          why_not ? refuse(*exchange, *why_not) : exchange->respond(200, answer);
          look_whether_done();
        });
      });
}

void Service::admit(Prepared prepared, const Coming& coming) {
  const std::int64_t count = prepared.num_choices();
  if (std::ssize(places_) + count > options_.max_unfinished)
    return refuse(*coming.exchange, Refusal(503, "the queue is full"));
  const std::int64_t first = std::exchange(next_request_, next_request_ + count);
  auto answering =
      std::make_shared<Answering>(std::move(prepared), premises_.name, premises_.model->tokens(),
                                  coming.exchange, metrics_, coming.came);
  for (std::int64_t i = 0; i < count; ++i)
    places_[first + i] = {answering, static_cast<std::size_t>(i), first};
  coming.exchange->on_left = [this, held = std::weak_ptr(answering), first, count] {
    if (const auto left = held.lock()) leave(left, first, count);
  };
  engine_.submit(answering->orders(first));
  answering->begin();
}

void Service::leave(const std::shared_ptr<Answering>& answering, std::int64_t first,
                    std::int64_t count) {
  answering->leave();
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(first + i);
  engine_.cancel(std::move(all));
}

void Service::take(News news) {
  std::int64_t tokens = 0;
  std::vector<std::int64_t> stopped;
  for (const News::Piece& piece : news.pieces) {
    tokens += std::ssize(piece.tokens);
    const auto found = places_.find(piece.request);
    if (found == places_.end()) continue;
    const Place place = found->second;
    if (place.answering->brought(place.choice, piece)) stopped.push_back(piece.request);
  }
  if (tokens > 0) metrics_.step_tokens(tokens);
  if (!stopped.empty()) engine_.cancel(std::move(stopped));
  for (const News::End& end : news.ends) {
    const auto found = places_.find(end.request);
    if (found == places_.end()) continue;
    const Place place = found->second;
    places_.erase(found);
    if (end.how == run::Ending::rejected) {
      place.answering->fail(400, "this engine cannot ever serve the request: " + end.why_never);
    } else {
      place.answering->ended(place.choice, end);
    }
    if (place.answering->is_over()) place.answering->finish();
  }
  look_whether_done();
}

// ------------------------------------------------------------------------------------------ the
// end

void Service::drain(std::function<void()> done) {
  is_draining_ = true;
  done_ = std::move(done);
  for (const auto& viewer : std::exchange(viewers_, {})) viewer->finish();
  look_whether_done();
}

void Service::look_whether_done() {
  if (is_draining_ && num_coming_ == 0 && places_.empty() && done_) std::exchange(done_, nullptr)();
}

std::int64_t Service::fail_all(int status, const std::string& message) {
  is_draining_ = true;
  std::int64_t count = 0;
  for (const auto& [request, place] : std::exchange(places_, {})) {
    if (place.answering->is_over()) continue;
    ++count;
    place.answering->fail(status, message);
  }
  return count;
}

}  // namespace tessera::http
