#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "parts.h"
#include "tessera/core/output.h"
#include "tessera/serving/served.h"

namespace tessera::serving {
namespace {

/// A number and the comma before it; nothing but the comma where it is absent.
void add_field(fmt::memory_buffer& out, bool there, double value) {
  out.push_back(',');
  if (there) fmt::format_to(std::back_inserter(out), "{}", value);
}

void add_row(fmt::memory_buffer& out, std::size_t index, const RequestRecord& r) {
  const bool sent = r.arrival != kNever, scheduled = sent && r.first_scheduled != kNever;
  fmt::format_to(std::back_inserter(out), "{}", index);
  add_field(out, sent, to_seconds(r.arrival));
  add_field(out, sent && r.first_token != kNever, ttft_s(r));
  add_field(out, finished(r) && r.output_tokens > 1, tpot_s(r));
  add_field(out, finished(r), e2e_s(r));
  add_field(out, scheduled, queue_s(r));
  fmt::format_to(std::back_inserter(out), ",{},{},{},{},{},{}", r.output_tokens, r.cached_tokens,
                 r.recomputed_tokens, r.num_preemptions, r.replica, name_of(r.outcome));
  for (const Ticks waited : r.waited) add_field(out, true, to_seconds(waited));
  out.push_back('\n');
}

}  // namespace

void save_requests_csv(const Log& log, const std::string& path) {
  OutputFile file(path);
  fmt::memory_buffer block;
  fmt::format_to(std::back_inserter(block),
                 "request,arrival_s,ttft_s,tpot_s,e2e_s,queue_s,output_tokens,cached_tokens,"
                 "recomputed_tokens,preemptions,replica,outcome,waited_step_s,waited_seats_s,"
                 "waited_tokens_s,waited_blocks_s,waited_policy_s\n");
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    add_row(block, i, log.requests[i]);
    if (block.size() < 1 << 20) continue;
    file.append({block.data(), block.size()});
    block.clear();
  }
  file.append({block.data(), block.size()});
  file.commit();
}

std::vector<SeriesRow> series_of(const Log& log, std::size_t num_rows) {
  if (log.end <= 0 || log.samples.empty() || num_rows == 0) return {};
  std::vector<SeriesRow> rows(num_rows);
  const double width_s = to_seconds(log.end) / static_cast<double>(num_rows);
  for (std::size_t i = 0; i < num_rows; ++i) rows[i].time_s = width_s * static_cast<double>(i);
  // Calls add(row, share of the row's width) for each row that the stretch overlaps.
  const auto over = [&](Ticks from, Ticks to, auto&& add) {
    const double begin = std::max(0.0, to_seconds(from) / width_s);
    const double end = std::min(static_cast<double>(num_rows), to_seconds(to) / width_s);
    for (auto i = static_cast<std::size_t>(begin); i < num_rows && static_cast<double>(i) < end;
         ++i) {
      const auto low = static_cast<double>(i);
      add(rows[i], std::min(end, low + 1) - std::max(begin, low));
    }
  };
  Ticks before = 0;
  for (std::size_t i = 0; i < log.samples.size(); ++i) {
    const StateSample& sample = log.samples[i];
    const Ticks next = i + 1 < log.samples.size() ? log.samples[i + 1].time : log.end;
    over(sample.time, next, [&](SeriesRow& row, double share) {
      row.waiting += share * static_cast<double>(sample.num_waiting);
      row.running += share * static_cast<double>(sample.num_running);
      row.used_blocks += share * static_cast<double>(sample.used_blocks);
    });
    if (sample.time > before) {
      const double tok_s =
          static_cast<double>(sample.output_tokens) / to_seconds(sample.time - before);
      over(before, sample.time,
           [&](SeriesRow& row, double share) { row.throughput_tok_s += share * tok_s; });
    } else if (sample.output_tokens > 0) {  // at the very start: all in the first stretch
      rows[0].throughput_tok_s += static_cast<double>(sample.output_tokens) / width_s;
    }
    before = sample.time;
  }
  return rows;
}

}  // namespace tessera::serving
