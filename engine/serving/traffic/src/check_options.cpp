#include <fmt/format.h>

#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/record_json.h"
#include "tessera/serving/traffic_options.h"

namespace tessera {
namespace {

using serving::Arrivals;
using serving::LengthDistribution;
using serving::LengthKind;
using serving::TrafficOptions;

struct Given {
  std::string_view name;
  bool given;
};

void refuse_given(const std::vector<Given>& options, const FieldPath& path,
                  std::string_view reason) {
  for (const Given& option : options) {
    if (option.given) refuse(path(option.name), reason);
  }
}

void check_limits(const LengthDistribution& lengths, const FieldPath& path) {
  if (!lengths.mean)
    refuse(path("mean"), "missing: a {} distribution needs it", name_of(lengths.distribution));
  const auto low = static_cast<double>(lengths.min.value_or(1));
  const auto high = static_cast<double>(lengths.max.value_or(kMaxTokensPerRequest));
  if (!(*lengths.mean > low && *lengths.mean < high)) {
    refuse(ErrorCode::out_of_range, path("mean"),
           "{} is not between the least ({}) and the most ({}); for a single value take "
           "distribution = \"fixed\"",
           *lengths.mean, low, high);
  }
}

void check_arrivals(const TrafficOptions& o, const FieldPath& path) {
  const Arrivals kind = o.arrivals.value_or(Arrivals::poisson);
  if (o.burstiness && o.cv) {
    refuse(path("cv"),
           "given beside burstiness, which says the same (burstiness = 1 / cv^2); give one");
  }
  const bool shaped = o.burstiness || o.cv;
  if (shaped && o.arrivals && kind != Arrivals::gamma) {
    refuse(path(o.cv ? "cv" : "burstiness"), "arrivals = \"{}\" has no such thing; take \"gamma\"",
           name_of(kind));
  }
  if (kind == Arrivals::gamma && !shaped) {
    refuse(path("burstiness"), "missing: gamma arrivals need it, or cv");
  }
  if (kind == Arrivals::closed) {
    if (!o.concurrency) {
      refuse(path("concurrency"), "missing: a closed loop needs the number of requests under way");
    }
    refuse_given({{"rate_per_s", o.rate_per_s.has_value()},
                  {"rate_scale", o.rate_scale.has_value()},
                  {"exact_rate", o.exact_rate},
                  {"category", !o.category.empty()}},
                 path, "a closed loop has no rate of its own: a request is sent when one ends");
    refuse_given(
        {{"sessions", o.sessions.has_value()}}, path,
        "sessions wait for their own answers, and cannot wait for others' in a closed loop "
        "too; for so many users take rate_per_s = math.huge");
  } else if (o.concurrency) {
    refuse(path("concurrency"),
           "a limit on open arrivals would hide the time that requests wait for it; take arrivals "
           "= \"closed\", or leave it out");
  }
}

void check_rate(const TrafficOptions& o, const FieldPath& path) {
  if (o.rate_per_s && !(*o.rate_per_s > 0)) {
    refuse(ErrorCode::out_of_range, path("rate_per_s"),
           "{}: no request would ever come; give requests per second, or math.huge for all at once",
           *o.rate_per_s);
  }
  const bool at_once = o.rate_per_s && std::isinf(*o.rate_per_s);
  if (o.trace.empty() && o.arrivals != Arrivals::closed && !o.rate_per_s) {
    refuse(path("rate_per_s"),
           "missing: give requests per second, math.huge for all at once, a trace, or arrivals = "
           "\"closed\" with concurrency");
  }
  if (at_once) {
    refuse_given({{"duration_s", o.duration_s.has_value()}, {"exact_rate", o.exact_rate}}, path,
                 "has no meaning where all requests come at once (rate_per_s = math.huge)");
    if (!o.trace.empty()) {
      refuse(path("rate_per_s"),
             "a trace cannot come all at once; give a finite rate, or arrivals "
             "= \"closed\" with concurrency");
    }
  }
  if (o.exact_rate && o.duration_s) {
    refuse(path("exact_rate"), "needs num_requests in place of duration_s");
  }
}

void check_prefixes(const TrafficOptions& o, const FieldPath& path) {
  if (o.prefix_tokens) {
    if (o.sessions && o.sessions->system_prompt_tokens) {
      refuse(path("prefix_tokens"),
             "given beside sessions.system_prompt_tokens, which is such a prefix; give one");
    }
    return;
  }
  refuse_given({{"prefix_groups", o.prefix_groups.has_value()},
                {"prefix_share", o.prefix_share.has_value()},
                {"prefix_zipf", o.prefix_zipf.has_value()}},
               path, "needs prefix_tokens, the length of the shared prefixes");
}

void check_files(const TrafficOptions& o, const FieldPath& path) {
  if (!o.lengths.empty()) {
    refuse_given({{"prompt_tokens", o.prompt_tokens.has_value()},
                  {"output_tokens", o.output_tokens.has_value()}},
                 path, "given beside lengths, whose file has both; give one");
  } else if (o.in_order) {
    refuse(path("in_order"), "needs lengths, the file whose order is kept");
  }
  if (o.trace.empty()) {
    refuse_given({{"category", !o.category.empty()},
                  {"rate_scale", o.rate_scale.has_value()},
                  {"thin", o.thin.has_value()},
                  {"start_s", o.start_s.has_value()},
                  {"intervals", o.intervals.has_value()},
                  {"sort", o.sort}},
                 path, "needs a trace");
    if (o.num_requests && o.duration_s) {
      refuse(path("duration_s"), "given beside num_requests; give one");
    }
  } else if (o.rate_scale && o.rate_per_s) {
    refuse(path("rate_scale"), "given beside rate_per_s, which scales the trace too; give one");
  }
  if (o.intervals) {
    refuse_given(
        {{"rate_per_s", o.rate_per_s.has_value()}, {"rate_scale", o.rate_scale.has_value()}}, path,
        "given beside intervals, which scale the trace too; give one");
  }
}

void check_classes(const TrafficOptions& o, const FieldPath& path) {
  if (o.classes.empty()) return;
  double sum = 0;
  for (const serving::RequestClass& each : o.classes) sum += each.share;
  if (!(std::abs(sum - 1) <= 1e-6)) {
    refuse(path("classes"), "the shares sum to {}, not to 1", sum);
  }
  for (std::size_t i = 1; i < o.classes.size(); ++i) {
    const bool names = !o.classes[i].model.empty(), first = !o.classes.front().model.empty();
    if (names == first) continue;
    refuse(path(fmt::format("classes[{}].model", names ? 1 : i + 1)),
           "missing: other classes name a model; name one in each, or in none");
  }
}

}  // namespace

Json JsonValue<LengthDistribution>::write(const LengthDistribution& lengths) {
  if (lengths.distribution == LengthKind::fixed && lengths.mean) return *lengths.mean;
  return json_of(lengths);
}

LengthDistribution JsonValue<LengthDistribution>::read(const Json& json, const std::string& path,
                                                       const FieldSpec&) {
  if (!json.is_number()) return from_json<LengthDistribution>(json, path);
  return serving::fixed_length(json_integer(json, path, 1, kMaxTokensPerRequest));
}

void Fields<LengthDistribution>::check(const LengthDistribution& lengths, const FieldPath& path) {
  const LengthKind kind = lengths.distribution;
  if (kind != LengthKind::lognormal && lengths.cv) {
    refuse(path("cv"), "a {} distribution has none to choose; only \"lognormal\" has",
           name_of(kind));
  }
  if (kind == LengthKind::lognormal && !lengths.cv) {
    refuse(path("cv"), "missing: a lognormal distribution needs it");
  }
  if (lengths.min && lengths.max && *lengths.min > *lengths.max) {
    refuse(ErrorCode::out_of_range, path("min"), "{} is above max ({})", *lengths.min,
           *lengths.max);
  }
  if (kind == LengthKind::uniform) {
    if (lengths.mean || !lengths.min || !lengths.max) {
      refuse(path(lengths.mean  ? "mean"
                  : lengths.min ? "max"
                                : "min"),
             "a uniform distribution is given by min and max");
    }
  } else if (kind == LengthKind::fixed) {
    if (lengths.min || lengths.max) {
      refuse(path(lengths.min ? "min" : "max"),
             "a fixed length has no limits; choose another distribution or leave them out");
    }
    if (!lengths.mean) refuse(path("mean"), "missing: a fixed length needs it");
    if (*lengths.mean != std::floor(*lengths.mean)) {
      refuse(path("mean"),
             "{} is no whole number; take distribution = \"geometric\" or another "
             "one for lengths that vary",
             *lengths.mean);
    }
  } else {
    check_limits(lengths, path);
  }
}

void Fields<TrafficOptions>::check(const TrafficOptions& o, const FieldPath& path) {
  const auto check_part = [&](std::string_view name,
                              const std::optional<LengthDistribution>& part) {
    if (part) check_record(*part, FieldPath{path(name)});
  };
  check_part("prompt_tokens", o.prompt_tokens);
  check_part("output_tokens", o.output_tokens);
  if (o.sessions) {
    check_record(o.sessions->turns, FieldPath{path("sessions") + ".turns"});
    if (o.n > 1) {
      refuse(path("n"),
             "parallel sampling within sessions: nothing says which answer the next "
             "turn goes on from; leave one of them out");
    }
  }
  check_arrivals(o, path);
  check_rate(o, path);
  check_prefixes(o, path);
  check_files(o, path);
  check_classes(o, path);
}

namespace serving {

LengthDistribution fixed_length(std::int64_t tokens) {
  LengthDistribution lengths;
  lengths.mean = static_cast<double>(tokens);
  return lengths;
}

}  // namespace serving
}  // namespace tessera
