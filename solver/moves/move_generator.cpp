#include "move_generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "moves.h"

namespace tessera::solver {
namespace {

constexpr std::size_t kLongestShift = 8;

std::size_t smallest_stage(const WorkingPlan& plan, std::size_t stage) {
  const bool end = stage == 0 || stage + 1 == plan.num_stages();
  return plan.instance().may_be_empty() && !end ? 0 : 1;
}

Move named(MoveKind kind, std::size_t from, std::size_t to) {
  Move move;
  move.kind = static_cast<std::int32_t>(kind);
  move.from_stage = static_cast<std::int32_t>(from);
  move.to_stage = static_cast<std::int32_t>(to);
  return move;
}

}  // namespace

MoveGenerator::MoveGenerator(const WorkingPlan& plan, const MoveQuery& query,
                             const PlanRequest& request)
    : plan_(plan), query_(query), request_(request) {
  const Candidate& c = plan.candidate();
  for (std::size_t k = 0; k < plan.num_stages(); ++k) {
    stage_of_.insert(stage_of_.end(), size_of(c, k), k);
    counts_.push_back(bit_counts(plan, k));
  }
}

std::size_t MoveGenerator::next(Move* block, std::size_t capacity) {
  std::size_t written = 0;
  while (written < capacity) {
    if (taken_ == moves_.size()) {
      const auto exhausted = [&](MoveKind kind) {
        return !query_.wants(kind) || source_ >= num_sources(kind);
      };
      while (kind_ < kNumMoveKinds && exhausted(static_cast<MoveKind>(kind_))) {
        ++kind_;
        source_ = 0;
      }
      if (kind_ >= kNumMoveKinds) break;
      moves_.clear();
      taken_ = 0;
      fill(static_cast<MoveKind>(kind_), source_++);
      continue;
    }
    const std::size_t n = std::min(capacity - written, moves_.size() - taken_);
    std::copy_n(moves_.begin() + static_cast<std::ptrdiff_t>(taken_), n, block + written);
    taken_ += n;
    written += n;
  }
  return written;
}

void MoveGenerator::count_sources() {
  if (counted_) return;
  counted_ = true;
  std::size_t end = 0;
  for (int k = 0; k < kNumMoveKinds; ++k) {
    const auto kind = static_cast<MoveKind>(k);
    for (std::size_t s = 0; query_.wants(kind) && s < num_sources(kind); ++s) {
      const bool rule = kind == MoveKind::rule;
      moves_.clear();
      fill(kind, s, rule ? kAll : kNone);
      const std::size_t n = rule ? moves_.size() : position_;
      if (n == 0) continue;
      sources_.push_back({kind, s, end, end + n, std::exchange(moves_, {})});
      end += n;
    }
  }
}

std::size_t MoveGenerator::count() {
  count_sources();
  return sources_.empty() ? 0 : sources_.back().end;
}

Move MoveGenerator::at(std::size_t index) {
  count_sources();
  const auto source = std::partition_point(sources_.begin(), sources_.end(),
                                           [&](const Source& s) { return s.end <= index; });
  if (source->kind == MoveKind::rule) return source->rules[index - source->begin];
  moves_.clear();
  fill(source->kind, source->source, index - source->begin);
  return moves_.front();
}

/// Whether the next move of the source is to be priced.
bool MoveGenerator::wanted() {
  const std::size_t at = position_++;
  return only_ == kAll || only_ == at;
}

std::size_t MoveGenerator::num_sources(MoveKind kind) const {
  switch (kind) {
    case MoveKind::shift:
      return plan_.num_stages() - 1;
    case MoveKind::swap:
    case MoveKind::retype:
      return stage_of_.size();
    case MoveKind::rule:
      return plan_.num_stages();
    case MoveKind::micro_batch:
      return 2;
    case MoveKind::order:
      return request_.order ? 0 : plan_.num_stages();
  }
  return 0;
}

void MoveGenerator::fill(MoveKind kind, std::size_t source, std::size_t only) {
  only_ = only;
  position_ = 0;
  switch (kind) {
    case MoveKind::shift:
      return shifts(source + 1);
    case MoveKind::swap:
      return swaps(source);
    case MoveKind::retype:
      return retypes(source);
    case MoveKind::rule:
      return rules(source);
    case MoveKind::micro_batch:
      return sizes(source == 1);
    case MoveKind::order:
      return orders(source);
  }
}

bool MoveGenerator::asked(std::size_t from, std::size_t to) const {
  return (!query_.from_stage || *query_.from_stage == from) &&
         (!query_.to_stage || *query_.to_stage == to);
}

bool MoveGenerator::holds(const Stage& sums) const {
  return sums.bytes <= sums.usable_bytes * (1 + kMemorySlack);
}

bool MoveGenerator::keeps_quality(double omega_delta) const {
  const auto& limit = plan_.instance().max_omega;
  return !limit || plan_.omega() + omega_delta <= *limit + kQualitySlack * std::abs(*limit);
}

void MoveGenerator::emit(Move move, std::size_t from, const Stage& from_sums, std::size_t to,
                         const Stage& to_sums, double omega_delta, bool runs) {
  const WorkingPlan::Times times = plan_.times_with(from, from_sums, to, to_sums);
  move.prefill_delta_s = times.prefill_s - plan_.times().prefill_s;
  move.decode_delta_s = times.decode_s - plan_.times().decode_s;
  move.omega_delta = omega_delta;
  move.objective_delta =
      move.prefill_delta_s + move.decode_delta_s + plan_.instance().theta * omega_delta;
  const Stage& gains = from == to ? from_sums : to_sums;
  move.memory_delta_bytes = gains.bytes - plan_.stage(to).bytes;
  move.fits = runs && holds(from_sums) && holds(gains) && keeps_quality(omega_delta);
  moves_.push_back(move);
}

void MoveGenerator::shifts(std::size_t boundary) {
  if (asked(boundary - 1, boundary)) shift_towards(boundary - 1, boundary);
  if (asked(boundary, boundary - 1)) shift_towards(boundary, boundary - 1);
}

void MoveGenerator::shift_towards(std::size_t from, std::size_t to) {
  const Candidate& c = plan_.candidate();
  const std::size_t size = size_of(c, from), least = smallest_stage(plan_, from);
  Stage left = plan_.stage(from), gained = plan_.stage(to);
  bool runs = true;
  for (std::size_t n = 1; n + least <= size && n <= kLongestShift; ++n) {
    const std::size_t layer = to > from ? c.first_layer[to] - n : c.first_layer[from] + n - 1;
    const std::size_t bit = c.bit[layer];
    const Stage here = plan_.layer_on(from, layer, bit), there = plan_.layer_on(to, layer, bit);
    left.prefill_s -= here.prefill_s;
    left.decode_s -= here.decode_s;
    left.bytes -= here.bytes;
    gained.prefill_s += there.prefill_s;
    gained.decode_s += there.decode_s;
    gained.bytes += there.bytes;
    runs = runs && plan_.runs(to, bit);
    if ((n & (n - 1)) != 0 || !wanted()) continue;  // 1, 2, 4, 8 layers
    Move move = named(MoveKind::shift, from, to);
    move.first_layer = static_cast<std::int32_t>(to > from ? layer : c.first_layer[from]);
    move.num_layers = static_cast<std::int32_t>(n);
    emit(move, from, left, to, gained, 0, runs);
  }
}

void MoveGenerator::retypes(std::size_t layer) {
  const std::size_t stage = stage_of_[layer];
  if (!asked(stage, stage)) return;
  const Instance& in = plan_.instance();
  const std::size_t old = plan_.candidate().bit[layer];
  const Stage before = plan_.layer_on(stage, layer, old);
  for (std::size_t bit = 0; bit < in.num_bits(); ++bit) {
    if (bit == old || !plan_.runs(stage, bit) || !wanted()) continue;
    const Stage after = plan_.layer_on(stage, layer, bit);
    Stage sums = plan_.stage(stage);
    sums.prefill_s += after.prefill_s - before.prefill_s;
    sums.decode_s += after.decode_s - before.decode_s;
    sums.bytes += after.bytes - before.bytes;
    Move move = named(MoveKind::retype, stage, stage);
    move.first_layer = static_cast<std::int32_t>(layer);
    move.num_layers = 1;
    move.from_bitwidth = in.bitwidths[old];
    move.to_bitwidth = in.bitwidths[bit];
    emit(move, stage, sums, stage, sums, in.omega_at(layer, bit) - in.omega_at(layer, old), true);
  }
}

void MoveGenerator::swaps(std::size_t layer) {
  const Instance& in = plan_.instance();
  const Candidate& c = plan_.candidate();
  const std::size_t a = stage_of_[layer], bit_a = c.bit[layer];
  const Stage a_before = plan_.layer_on(a, layer, bit_a);
  for (std::size_t other = layer + 1; other < stage_of_.size(); ++other) {
    const std::size_t b = stage_of_[other], bit_b = c.bit[other];
    if (bit_a == bit_b || !(asked(a, b) || asked(b, a))) continue;
    if (!plan_.runs(a, bit_b) || !plan_.runs(b, bit_a) || !wanted()) continue;
    const Stage a_after = plan_.layer_on(a, layer, bit_b);
    const Stage b_before = plan_.layer_on(b, other, bit_b);
    const Stage b_after = plan_.layer_on(b, other, bit_a);
    Stage sums_a = plan_.stage(a), sums_b = plan_.stage(b);
    const auto replace = [](Stage& sums, const Stage& before, const Stage& after) {
      sums.prefill_s += after.prefill_s - before.prefill_s;
      sums.decode_s += after.decode_s - before.decode_s;
      sums.bytes += after.bytes - before.bytes;
    };
    replace(sums_a, a_before, a_after);
    replace(a == b ? sums_a : sums_b, b_before, b_after);
    Move move = named(MoveKind::swap, a, b);
    move.first_layer = static_cast<std::int32_t>(layer);
    move.other_layer = static_cast<std::int32_t>(other);
    move.num_layers = 2;
    move.from_bitwidth = in.bitwidths[bit_a];
    move.to_bitwidth = in.bitwidths[bit_b];
    const double omega = in.omega_at(layer, bit_b) - in.omega_at(layer, bit_a) +
                         in.omega_at(other, bit_a) - in.omega_at(other, bit_b);
    emit(move, a, sums_a, b, sums_b, omega, true);
  }
}

// The general set over all bitwidths. Exchanges keep the bitwidths that there are; conversions
// lower some on the pioneer's side, which adabits, blind to latency, has left higher than pays.
void MoveGenerator::rules(std::size_t straggler) {
  const Instance& in = plan_.instance();
  for (std::size_t pioneer = 0; pioneer < plan_.num_stages(); ++pioneer) {
    if (pioneer == straggler || !asked(straggler, pioneer)) continue;
    for (std::size_t st = 0; st < in.num_bits(); ++st) {
      for (std::size_t to = st; to < in.num_bits(); ++to) exchanges(straggler, pioneer, st, to);
      for (std::size_t to = 0; to < in.num_bits(); ++to) {
        if (to != st) add_rule(straggler, pioneer, st, to, {1, 0, to});
        for (std::size_t room = to + 1; room < in.num_bits(); ++room) {
          const std::int32_t layers = in.bitwidths[room] / in.bitwidths[to] - 1;
          add_rule(straggler, pioneer, st, to, {layers, 1, room});
        }
      }
    }
  }
}

// Algorithm 2 exchanges sets of layers. One pioneer layer against as many straggler layers as have
// its weights is the printed rule; the KV cache, which has no bitwidth, breaks that balance, and on
// full devices no single rule fits. So larger sets are weighed by the bytes that they really hold.
void MoveGenerator::exchanges(std::size_t straggler, std::size_t pioneer, std::size_t st,
                              std::size_t to) {
  const Instance& in = plan_.instance();
  const std::int32_t printed = in.bitwidths[to] / in.bitwidths[st];
  if (st == to) {  // nothing would change, so the layer simply goes over
    add_rule(straggler, pioneer, st, to, {1, 0, to});
    return;
  }
  add_rule(straggler, pioneer, st, to, {printed, 1, to});
  const std::size_t layer = plan_.candidate().first_layer[straggler];
  const double gained = plan_.layer_on(pioneer, layer, st).bytes;
  const double lost = plan_.layer_on(pioneer, layer, to).bytes;
  if (gained <= 0) return;
  const double room = plan_.stage(pioneer).usable_bytes - plan_.stage(pioneer).bytes;
  const auto most = static_cast<double>(counts_[straggler][st]);
  for (std::size_t k = 1; k <= counts_[pioneer][to]; ++k) {
    const double in_place = static_cast<double>(k) * lost;
    std::int32_t before = 0;
    for (const double bytes : {in_place, in_place + std::max(0.0, room)}) {
      const auto layers = static_cast<std::int32_t>(std::min(most, std::floor(bytes / gained)));
      const bool known = layers == before || (k == 1 && layers == printed);
      if (known || layers < static_cast<std::int32_t>(k)) continue;
      before = layers;
      add_rule(straggler, pioneer, st, to, {layers, static_cast<std::int32_t>(k), to});
    }
  }
}

void MoveGenerator::add_rule(std::size_t straggler, std::size_t pioneer, std::size_t st,
                             std::size_t to, const RuleSize& size) {
  const Instance& in = plan_.instance();
  Move move = named(MoveKind::rule, straggler, pioneer);
  move.from_bitwidth = in.bitwidths[st];
  move.to_bitwidth = in.bitwidths[to];
  move.num_layers = size.straggler_layers;
  move.pioneer_layers = size.pioneer_layers;
  move.pioneer_bitwidth = in.bitwidths[size.pioneer_bit];
  move.first_layer = static_cast<std::int32_t>(plan_.candidate().first_layer[straggler]);
  const auto effect = effect_of(plan_, move, counts_[straggler], counts_[pioneer]);
  const std::size_t left = size_of(plan_.candidate(), straggler);
  if (!effect || left < effect->net + smallest_stage(plan_, straggler)) return;
  if (in.num_classes > 1) {
    move = priced(plan_, move);
    if (move.fits) moves_.push_back(move);
    return;
  }
  // Most rules fail for memory, which with one shape of layer the counts alone tell.
  const Stage from = with_counts(straggler, effect->straggler);
  const Stage gained = with_counts(pioneer, effect->pioneer);
  if (!holds(from) || !holds(gained)) return;
  for (std::size_t bit = 0; bit < in.num_bits(); ++bit) {
    if (effect->pioneer[bit] > 0 && !plan_.runs(pioneer, bit)) return;
    if (effect->straggler[bit] > 0 && !plan_.runs(straggler, bit)) return;
  }
  const Candidate after = after_rule(plan_, straggler, pioneer, *effect);
  const std::size_t begin = plan_.candidate().first_layer[std::min(straggler, pioneer)];
  const std::size_t end = plan_.candidate().first_layer[std::max(straggler, pioneer) + 1];
  double omega = 0;
  for (std::size_t i = begin; i < end; ++i) {
    omega += in.omega_at(i, after.bit[i]) - in.omega_at(i, plan_.candidate().bit[i]);
  }
  if (keeps_quality(omega)) emit(move, straggler, from, pioneer, gained, omega, true);
}

/// The sums of a stage if it had these layers, where all layers are alike.
MoveGenerator::Stage MoveGenerator::with_counts(std::size_t stage,
                                                const std::vector<std::size_t>& counts) const {
  Stage sums = plan_.stage(stage);
  for (std::size_t bit = 0; bit < counts.size(); ++bit) {
    const double more = static_cast<double>(counts[bit]) - static_cast<double>(counts_[stage][bit]);
    if (more == 0) continue;
    const Stage one = plan_.layer_on(stage, 0, bit);
    sums.prefill_s += more * one.prefill_s;
    sums.decode_s += more * one.decode_s;
    sums.bytes += more * one.bytes;
  }
  return sums;
}

void MoveGenerator::sizes(bool decode) {
  const Instance& in = plan_.instance();
  const Candidate& c = plan_.candidate();
  if (!asked(0, 0)) return;
  if (decode ? request_.decode_micro_batch_size.has_value() || in.objective == Objective::paper
             : request_.prefill_micro_batch_size.has_value()) {
    return;
  }
  for (const std::int64_t size : useful_micro_batch_sizes(in)) {
    const std::int64_t eta = decode ? c.prefill_micro_batch_size : size;
    const std::int64_t xi = decode ? size : c.decode_micro_batch_size;
    if (eta > xi || (eta == c.prefill_micro_batch_size && xi == c.decode_micro_batch_size)) {
      continue;
    }
    if (!wanted()) continue;
    Move move = named(MoveKind::micro_batch, 0, 0);
    move.first_layer = decode ? 1 : 0;
    move.num_layers = static_cast<std::int32_t>(size);
    moves_.push_back(priced(plan_, move));
  }
}

void MoveGenerator::orders(std::size_t stage) {
  const auto& order = plan_.candidate().order;
  for (std::size_t other = stage + 1; other < order.size(); ++other) {
    if (order[stage] == order[other] || !(asked(stage, other) || asked(other, stage))) continue;
    if (!wanted()) continue;
    moves_.push_back(priced(plan_, named(MoveKind::order, stage, other)));
  }
}

}  // namespace tessera::solver
