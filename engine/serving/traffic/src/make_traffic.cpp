#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "trace_reader.h"

namespace tessera::serving {
namespace {

std::string text_of(const LengthDistribution& lengths, std::string_view what) {
  if (lengths.distribution == LengthKind::fixed)
    return fmt::format("{:.9g} {}", *lengths.mean, what);
  if (lengths.distribution == LengthKind::uniform) {
    return fmt::format("{} to {} {}", *lengths.min, *lengths.max, what);
  }
  std::string text =
      fmt::format("{:.9g} {} ({}", *lengths.mean, what, name_of(lengths.distribution));
  if (lengths.cv) text += fmt::format(", cv {:.6g}", *lengths.cv);
  if (lengths.min) text += fmt::format(", at least {}", *lengths.min);
  if (lengths.max) text += fmt::format(", at most {}", *lengths.max);
  return text + ")";
}

std::string arrivals_text(const TrafficOptions& o, const Traffic& traffic) {
  if (o.arrivals == Arrivals::closed) return fmt::format("closed loop of {}", *o.concurrency);
  if (!traffic.rate_per_s) return "all at once";
  std::string kind(name_of(o.arrivals.value_or(Arrivals::poisson)));
  if (o.burstiness) kind = fmt::format("gamma (burstiness {:.6g})", *o.burstiness);
  if (o.cv) kind = fmt::format("gamma (cv {:.6g})", *o.cv);
  return fmt::format("{} {:.6g} req/s", kind, *traffic.rate_per_s);
}

std::string describe(const TrafficOptions& o, const Traffic& traffic) {
  std::string text =
      fmt::format("{} requests, {}", traffic.requests.size(), arrivals_text(o, traffic));
  if (!o.category.empty()) text += fmt::format(" on average as {}", o.category);
  if (!o.lengths.empty()) {
    text += ", lengths of " + file_name(o.lengths);
  } else {
    text += ", " + text_of(o.prompt_tokens.value_or(fixed_length(512)), "in") + ", " +
            text_of(o.output_tokens.value_or(fixed_length(128)), "out");
  }
  if (o.sessions) text += ", " + text_of(o.sessions->turns, "turns");
  if (o.n > 1) text += fmt::format(", n {}", o.n);
  if (o.prefix_tokens) text += fmt::format(", prefixes of {}", *o.prefix_tokens);
  return text + fmt::format(", seed {}", o.seed);
}

/// ", for 21 models"
std::string models_text(const Traffic& traffic) {
  if (traffic.models.empty()) return "";
  if (traffic.models.size() == 1) return ", for " + traffic.models.front();
  return fmt::format(", for {} models", traffic.models.size());
}

void note_cut(std::int64_t num_cut, const TrafficOptions& o, Traffic& traffic) {
  if (num_cut == 0) return;
  traffic.notes.push_back(
      fmt::format("max_tokens = {} ends {} of the outputs", *o.max_tokens, num_cut));
}

Traffic generated(const TrafficOptions& o, const std::string& path, const RateFunction* rates) {
  RequestTrace lengths;
  if (!o.lengths.empty()) {
    lengths = read_requests(o.lengths, kMaxTokensPerRequest, kMaxTokensPerRequest);
  }
  auto [traffic, num_cut] = generate(o, {o.lengths.empty() ? nullptr : &lengths, rates}, path);
  if (traffic.requests.empty()) {
    refuse(path + ".duration_s",
           "no request came in that time; take a longer one, a higher rate "
           "or another seed");
  }
  set_classes(o, traffic);
  set_patience(o, traffic);
  if (o.arrivals == Arrivals::closed) {
    traffic.concurrency = o.concurrency;
  } else if (rates != nullptr) {
    traffic.rate_per_s =
        o.rate_per_s ? *o.rate_per_s : rates->mean_per_s() * o.rate_scale.value_or(1);
    traffic.notes.push_back(
        "arrivals drawn for the rates of " + file_name(o.trace) +
        (o.rate_per_s || o.rate_scale ? ", all multiplied by the same factor" : ""));
    if (o.num_requests && static_cast<std::int64_t>(traffic.requests.size()) < *o.num_requests) {
      traffic.notes.push_back(fmt::format("{} requests where {} were asked for: the rates end",
                                          traffic.requests.size(), *o.num_requests));
    }
  } else if (!std::isinf(*o.rate_per_s)) {
    traffic.rate_per_s = o.rate_per_s;
  }
  if (o.in_order && traffic.requests.size() > lengths.requests.size()) {
    traffic.notes.push_back(fmt::format("the {} pairs of {} were taken more than once",
                                        lengths.requests.size(), file_name(o.lengths)));
  }
  note_cut(num_cut, o, traffic);
  traffic.description = describe(o, traffic) + models_text(traffic);
  return std::move(traffic);
}

/// What a trace of requests says cannot be said again.
void refuse_beside_trace(const TrafficOptions& o, const std::string& path) {
  const std::pair<std::string_view, bool> options[] = {
      {"prompt_tokens", o.prompt_tokens.has_value()},
      {"output_tokens", o.output_tokens.has_value()},
      {"lengths", !o.lengths.empty()},
      {"burstiness", o.burstiness.has_value()},
      {"cv", o.cv.has_value()},
      {"arrivals", o.arrivals && o.arrivals != Arrivals::closed},
      {"exact_rate", o.exact_rate},
      {"n", o.n > 1},
      {"prefix_tokens", o.prefix_tokens.has_value()},
      {"sessions", o.sessions.has_value()},
      {"category", !o.category.empty()}};
  for (const auto& [name, given] : options) {
    if (given) {
      refuse(path + "." + std::string(name),
             "given beside trace, whose file says when which "
             "requests come; give one");
    }
  }
}

Traffic replayed(const TrafficOptions& o, const std::string& path, const TraceFile& file) {
  refuse_beside_trace(o, path);
  Traffic traffic = read_trace(file, o.sort);
  traffic.description = "";
  replay(o, path, traffic);
  set_classes(o, traffic);
  set_patience(o, traffic);
  note_cut(limit_outputs(o, traffic), o, traffic);
  const std::string rescaled = traffic.description;
  traffic.description =
      fmt::format("{} requests of {}", traffic.requests.size(), file_name(o.trace));
  if (o.arrivals == Arrivals::closed) {
    traffic.description += ", " + arrivals_text(o, traffic);
  } else if (!rescaled.empty()) {
    traffic.description += rescaled;
  } else if (traffic.rate_per_s) {
    traffic.description += fmt::format(", {:.6g} req/s", *traffic.rate_per_s);
  }
  traffic.description += models_text(traffic);
  return traffic;
}

Traffic from_rates(const TrafficOptions& o, const std::string& path, const TraceFile& file) {
  const std::pair<std::string_view, bool> options[] = {{"arrivals", o.arrivals == Arrivals::closed},
                                                       {"exact_rate", o.exact_rate},
                                                       {"thin", o.thin.has_value()},
                                                       {"intervals", o.intervals.has_value()},
                                                       {"sort", o.sort}};
  for (const auto& [name, given] : options) {
    if (given) {
      refuse(path + "." + std::string(name), "{} has rates over time, to which this does not apply",
             file_name(o.trace));
    }
  }
  const RateFunction rates = read_rates(file, o, path);
  const double rate = o.rate_per_s.value_or(rates.mean_per_s() * o.rate_scale.value_or(1));
  if (!o.num_requests && rate * rates.end_s > kMaxRequests) {
    refuse(ErrorCode::out_of_range, path + ".duration_s",
           "{:.3g} requests in {:.6g} s; at most {} are allowed: shorten the window or give "
           "num_requests",
           rate * rates.end_s, rates.end_s, kMaxRequests);
  }
  return generated(o, path, &rates);
}

}  // namespace

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Traffic make_traffic(const TrafficOptions& options, const std::string& path) {
  check_record(options, FieldPath{path, "."});
  if (options.trace.empty()) return generated(options, path, nullptr);
  const TraceFile file(options.trace);
  return file.has_rates ? from_rates(options, path, file) : replayed(options, path, file);
}

}  // namespace tessera::serving
