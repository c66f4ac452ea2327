#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/serving/summary.h"

namespace tessera::serving {
namespace {

constexpr std::size_t kWidth = 80, kIndent = 13;

std::string percent(double ratio) { return fmt::format("{:.1f} %", 100 * ratio); }

/// "label        text", broken between words.
std::string line(const std::string& label, const std::string& text) {
  std::string result, row = fmt::format("{:<{}}", label, kIndent);
  bool empty = true;
  std::istringstream words(text);
  for (std::string word; words >> word; empty = false) {
    if (!empty && row.size() + 1 + word.size() > kWidth) {
      result += row + "\n";
      row = std::string(kIndent, ' ');
      empty = true;
    }
    if (!empty) row += ' ';
    row += word;
  }
  return result + row + "\n";
}

std::string bounds(const std::optional<double>& low, const std::optional<double>& high) {
  if (low && high) return format_seconds(*low) + " to " + format_seconds(*high);
  if (low) return "above " + format_seconds(*low);
  if (high) return "below " + format_seconds(*high);
  return "unknown";
}

std::string latency_row(const char* name, const Distribution& d) {
  if (d.n == 0) return fmt::format("{:<7}no values\n", name);
  const std::string half =
      d.mean_high ? "+-" + format_seconds(*d.mean_high - *d.mean) : std::string();
  return fmt::format("{:<7}{:>10} {:<11}{:>10}{:>10}{:>10}{:>10}{:>9}\n", name,
                     format_seconds(*d.mean), half, format_seconds(*d.p50), format_seconds(*d.p90),
                     format_seconds(*d.p95), format_seconds(*d.p99), d.n);
}

/// Between what the 99th percentiles lie, of those that have one.
std::string p99_bounds(const Summary& s) {
  const std::pair<const char*, const Distribution&> all[] = {{"TTFT", s.ttft_s},
                                                             {"TPOT", s.tpot_s},
                                                             {"ITL", s.itl_s},
                                                             {"E2E", s.e2e_s},
                                                             {"queued", s.queue_s}};
  std::vector<std::string> words;
  for (const auto& [name, d] : all) {
    if (d.n > 0) words.push_back(fmt::format("{} {}", name, bounds(d.p99_low, d.p99_high)));
  }
  return words.empty() ? std::string() : line("p99, 95 %", join(words, ", "));
}

std::string latencies(const Summary& s) {
  if (!s.stable) {
    return line("latencies",
                "not shown: those of an unstable run measure how long it went on (the "
                "fields ttft_s, tpot_s, itl_s, e2e_s hold them)");
  }
  std::string text = fmt::format("{:<7}{:>10} {:<11}{:>10}{:>10}{:>10}{:>10}{:>9}\n", "", "mean",
                                 "95 %", "p50", "p90", "p95", "p99", "n");
  text += latency_row("TTFT", s.ttft_s) + latency_row("TPOT", s.tpot_s);
  return text + latency_row("ITL", s.itl_s) + latency_row("E2E", s.e2e_s) +
         latency_row("queued", s.queue_s) + p99_bounds(s);
}

std::string headline(const Summary& s) {
  std::string text = fmt::format("{} of {} requests answered in {}", s.num_finished, s.num_requests,
                                 format_seconds(s.duration_s));
  const std::int64_t num_never = s.num_rejected - s.num_unplaced;
  if (num_never > 0) text += fmt::format(", {} rejected (can never fit)", num_never);
  if (s.num_unplaced > 0) {
    text += fmt::format(", {} rejected (their model was not there)", s.num_unplaced);
  }
  if (s.num_cancelled > 0) text += fmt::format(", {} cancelled", s.num_cancelled);
  if (s.num_unfinished > 0) text += fmt::format(", {} unfinished", s.num_unfinished);
  if (s.num_unsent > 0) text += fmt::format(", {} never sent", s.num_unsent);
  if (s.num_left_out > 0)
    text += fmt::format("; {} left out as warm-up or cool-down", s.num_left_out);
  if (s.stable) text += "; stable: " + s.stability;
  // The verdict begins with the word that stands before it.
  const std::string why = s.stable ? "" : s.verdict.substr(s.verdict.find(' ') + 1);
  return (s.stable ? std::string() : line("UNSTABLE", why)) + line("served", text) +
         (s.cut_off.empty() ? std::string() : line("cut off", s.cut_off));
}

std::string throughput(const Summary& s) {
  std::string text = fmt::format("{} output tok/s", format_number(s.throughput_tok_s, 4));
  if (s.total_tok_s) text += fmt::format(", {} with prompts", format_number(*s.total_tok_s, 4));
  text += fmt::format(", {} req/s", format_number(s.request_per_s, 4));
  if (s.offered_request_per_s) {
    text += fmt::format(" of {} offered", format_number(*s.offered_request_per_s, 4));
  }
  return line("throughput",
              text + fmt::format("; fullest second {} tok/s, most at once {} requests",
                                 format_number(s.peak_tok_s, 4), s.peak_concurrency));
}

std::string slo(const Summary& s) {
  std::string text;
  if (!s.stable) {
    if (!s.attainment_ratio && s.targets.empty()) return text;
    return line("SLO",
                "not attained: how many are within it would depend on how long the run went "
                "on (the fields attainment_ratio and targets hold what was seen)");
  }
  if (s.attainment_ratio) {
    text += line("SLO", fmt::format("{} within it (95 %: {} to {}), goodput {} req/s",
                                    percent(*s.attainment_ratio), percent(*s.attainment_low),
                                    percent(*s.attainment_high),
                                    format_number(*s.goodput_request_per_s, 4)));
  }
  for (const TargetVerdict& target : s.targets) {
    text += line(
        target.slo_class.empty() ? "target" : "  " + target.slo_class,
        fmt::format("{} {} {}, limit {}: {}", name_of(target.metric), name_of(target.statistic),
                    target.value_s ? format_seconds(*target.value_s)
                                   : "infinite (what is never answered counts so)",
                    format_seconds(target.limit_s),
                    !target.holds ? "missed"
                    : s.stable    ? "kept"
                                  : "kept so far"));
  }
  return text;
}

std::string waiting(const Summary& s) {
  double all_s = 0;
  std::vector<std::string> parts;
  const auto add = [&](const char* name, double Waiting::*place) {
    all_s += s.waited_s.*place;
    if (s.waited_ratio.*place > 0) {
      parts.push_back(fmt::format("{} {}", name, percent(s.waited_ratio.*place)));
    }
  };
  add("step under way", &Waiting::step);
  add("seats", &Waiting::seats);
  add("token budget", &Waiting::tokens);
  add("KV blocks", &Waiting::blocks);
  add("policy", &Waiting::policy);
  if (parts.empty()) return {};
  const std::string text = join(parts, ", ");
  if (!s.stable) return line("waited for", text);
  return line("waited for", text + fmt::format(" of {} on average", format_seconds(all_s)));
}

std::string memory(const Summary& s) {
  std::vector<std::string> parts;
  if (s.kv_usage_ratio) {
    parts.push_back(fmt::format("{} used on average, {} at most", percent(*s.kv_usage_ratio),
                                percent(s.kv_peak_usage_ratio.value_or(0))));
  }
  if (s.internal_fragmentation_ratio) {
    parts.push_back(percent(*s.internal_fragmentation_ratio) + " of what is handed out is empty");
  }
  if (s.external_fragmentation_ratio) {
    parts.push_back(percent(*s.external_fragmentation_ratio) +
                    " free but unusable while requests were refused");
  }
  if (s.prefix_hit_ratio) parts.push_back("prefix hits " + percent(*s.prefix_hit_ratio));
  if (s.preemptions > 0) {
    parts.push_back(fmt::format("{} preemptions ({} tokens computed again)", s.preemptions,
                                s.recomputed_tokens));
  }
  return parts.empty() ? std::string() : line("KV cache", join(parts, "; "));
}

std::string replicas(const Summary& s) {
  if (s.replicas.empty()) return {};
  double least = 1, most = 0;
  for (const ReplicaSummary& replica : s.replicas) {
    least = std::min(least, replica.utilisation_ratio);
    most = std::max(most, replica.utilisation_ratio);
  }
  std::string text = percent(s.utilisation_ratio) + " busy";
  if (s.replicas.size() > 1) {
    text += fmt::format(" on average over {} replicas ({} to {})", s.replicas.size(),
                        percent(least), percent(most));
  }
  if (s.acceptance_ratio) {
    text +=
        fmt::format("; {} of drafted tokens accepted, {} tokens per verification",
                    percent(*s.acceptance_ratio), format_number(s.accepted_length.value_or(1), 3));
  }
  return line("replicas", text);
}

std::string cost(const Summary& s) {
  std::vector<std::string> parts;
  if (s.usd_per_million_tokens) {
    parts.push_back(fmt::format("${:.3g} per million output tokens", *s.usd_per_million_tokens));
  }
  if (s.usd_per_million_total_tokens) {
    parts.push_back(
        fmt::format("${:.3g} per million of input and output", *s.usd_per_million_total_tokens));
  }
  if (s.usd_per_h) parts.push_back(fmt::format("${:.4g} an hour", *s.usd_per_h));
  if (s.joule_per_token) {
    parts.push_back(fmt::format("{:.3g} J per output token ({:.3g} kWh per million)",
                                *s.joule_per_token, *s.kwh_per_million_tokens));
  }
  return parts.empty() ? std::string() : line("cost", join(parts, ", "));
}

/// What published runs of its class say of the means.
std::string expectation(const Summary& s) {
  const cost::PredictionInterval* first = nullptr;
  std::vector<std::string> parts;
  const auto add = [&](cost::ServedMetric metric, const char* name, auto&& words) {
    const cost::PredictionInterval* found = cost::find_interval(s.intervals, metric);
    if (found == nullptr) return;
    if (first == nullptr) first = found;
    parts.push_back(
        fmt::format("{} {} to {}", name, words(found->low_ratio), words(found->high_ratio)));
  };
  const auto times = [](const Distribution& d) {
    return [&d](double ratio) { return format_seconds(*d.mean * ratio); };
  };
  if (s.stable && s.tpot_s.mean) add(cost::ServedMetric::tpot, "TPOT", times(s.tpot_s));
  if (s.stable && s.ttft_s.mean) add(cost::ServedMetric::ttft, "TTFT", times(s.ttft_s));
  if (!s.offered_request_per_s || !s.stable) {  // else the rate is that of the arrivals
    add(cost::ServedMetric::request_rate, "req/s",
        [&](double ratio) { return format_number(s.request_per_s * ratio, 3); });
  }
  if (first == nullptr) return {};
  return line("expect",
              fmt::format("means of {}: where four of five published runs lay ({}; {} "
                          "runs of {} kinds)",
                          join(parts, ", "), first->name, first->num_runs, first->num_groups));
}

}  // namespace

std::string describe(const Summary& s) {
  std::string text = headline(s) + latencies(s) + throughput(s) + slo(s) + waiting(s) + memory(s) +
                     replicas(s) + cost(s);
  if (!s.source.empty()) text += line("times", s.source);
  text += expectation(s);
  return text;
}

}  // namespace tessera::serving
