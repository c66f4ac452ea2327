#include "tessera/lm/layer_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layer_loss_part.h"
#include "means.h"
#include "scores.h"
#include "sequences.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"

namespace tessera::lm {
namespace {

using quality::LayerEffects;
using Hidden = std::vector<float>;  ///< [tokens of all pieces][hidden_size]

constexpr std::int64_t kHeadRows = 256;  // whose logits are in memory
constexpr double kMostCacheBytes = 512 * kMiB;

void check(const LayerLossRequest& request) {
  const auto refuse_size = [](const char* name, std::int64_t value) {
    refuse(ErrorCode::out_of_range, name, "{} is less than 2", value);
  };
  if (request.num_pieces < 2) refuse_size("num_pieces", request.num_pieces);
  if (request.piece_tokens < 2) refuse_size("piece_tokens", request.piece_tokens);
  if (request.bitwidths.empty()) refuse("bitwidths", "is empty");
  for (const std::int32_t bitwidth : request.bitwidths) {
    if (bitwidth != 3 && bitwidth != 4 && bitwidth != 8)
      refuse(ErrorCode::out_of_range, "bitwidths", "{} is none of 3, 4, 8", bitwidth);
    if (std::count(request.bitwidths.begin(), request.bitwidths.end(), bitwidth) > 1)
      refuse("bitwidths", "names {} twice", bitwidth);
  }
}

/// All pieces of the text, on their way through the layers.
class Pieces {
 public:
  Pieces(const LanguageModel& model, std::vector<std::span<const std::int32_t>> pieces)
      : model_(model),
        pieces_(std::move(pieces)),
        size_(static_cast<std::int64_t>(pieces_.front().size())),
        at_once_(std::clamp<std::int64_t>(
            static_cast<std::int64_t>(kMostCacheBytes / static_cast<double>(size_) /
                                      model.shape().kv_bytes_per_token(32)),
            1, static_cast<std::int64_t>(pieces_.size()))),
        slots_(model, at_once_, size_) {}

  Hidden embed() const {
    Hidden hidden(static_cast<std::size_t>(count() * floats()));
    for_groups([&](std::int64_t first, std::span<const SequenceStep> batch) {
      model_.embed(batch, part(hidden, first, batch.size()));
    });
    return hidden;
  }

  void run_layers(const LanguageModel& model, std::int64_t first_layer, std::int64_t last_layer,
                  Hidden& hidden) const {
    for_groups([&](std::int64_t first, std::span<const SequenceStep> batch) {
      model.run_layers(first_layer, last_layer, batch, slots_.cache(),
                       part(hidden, first, batch.size()));
    });
  }

  /// Mean loss of each piece, from what the last layer gives.
  std::vector<double> losses(const Hidden& hidden) const {
    return means([&](std::int64_t piece, std::int64_t row, std::int64_t rows,
                     std::span<double> scores) {
      const std::span<const float> logits = head(hidden, piece, row, rows, logits_);
      quality::score_rows(logits,
                          pieces_[static_cast<std::size_t>(piece)].subspan(
                              static_cast<std::size_t>(row + 1), static_cast<std::size_t>(rows)),
                          model_.num_threads(), scores);
    });
  }

  /// Of each of `others`, mean divergence from `base` of each piece. The logits of `base` are made
  /// once for all.
  LayerEffects divergences(const Hidden& base, const std::vector<Hidden>& others) const {
    LayerEffects sums(others.size(), std::vector<double>(pieces_.size()));
    std::vector<double> scores(static_cast<std::size_t>(kHeadRows));
    for_rows([&](std::int64_t piece, std::int64_t row, std::int64_t rows) {
      const std::span<const float> reference = head(base, piece, row, rows, reference_);
      for (std::size_t i = 0; i < others.size(); ++i) {
        const std::span own = std::span(scores).first(static_cast<std::size_t>(rows));
        quality::divergence_rows(reference, head(others[i], piece, row, rows, logits_),
                                 model_.num_threads(), own);
        for (const double score : own)
          sums[i][static_cast<std::size_t>(piece)] += score / static_cast<double>(size_ - 1);
      }
    });
    return sums;
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(pieces_.size()); }
  std::int64_t floats() const { return size_ * model_.shape().hidden_size; }  ///< of a piece

  std::span<float> part(Hidden& hidden, std::int64_t first, std::size_t num_pieces) const {
    return std::span(hidden).subspan(static_cast<std::size_t>(first * floats()),
                                     num_pieces * static_cast<std::size_t>(floats()));
  }

  template <class F>
  void for_groups(F&& f) const {
    for (std::int64_t first = 0; first < count(); first += at_once_) {
      std::vector<SequenceStep> batch;
      for (std::int64_t i = first; i < std::min(first + at_once_, count()); ++i) {
        batch.push_back(
            {pieces_[static_cast<std::size_t>(i)], 0, slots_.blocks(i - first, size_), 1});
      }
      f(first, std::span<const SequenceStep>(batch));
    }
  }

  /// Rows that predict a token of their piece: all but its last.
  template <class F>
  void for_rows(F&& f) const {
    for (std::int64_t piece = 0; piece < count(); ++piece) {
      for (std::int64_t row = 0; row < size_ - 1; row += kHeadRows)
        f(piece, row, std::min(kHeadRows, size_ - 1 - row));
    }
  }

  template <class F>
  std::vector<double> means(F&& score) const {
    std::vector<double> result(pieces_.size()), scores(static_cast<std::size_t>(kHeadRows));
    for_rows([&](std::int64_t piece, std::int64_t row, std::int64_t rows) {
      const std::span own = std::span(scores).first(static_cast<std::size_t>(rows));
      score(piece, row, rows, own);
      for (const double value : own)
        result[static_cast<std::size_t>(piece)] += value / static_cast<double>(size_ - 1);
    });
    return result;
  }

  std::span<const float> head(const Hidden& hidden, std::int64_t piece, std::int64_t row,
                              std::int64_t rows, Hidden& logits) const {
    const std::int64_t width = model_.shape().hidden_size;
    logits.resize(static_cast<std::size_t>(rows * model_.shape().vocab_size));
    model_.head(std::span(hidden).subspan(static_cast<std::size_t>((piece * size_ + row) * width),
                                          static_cast<std::size_t>(rows * width)),
                logits);
    return logits;
  }

  const LanguageModel& model_;
  std::vector<std::span<const std::int32_t>> pieces_;
  std::int64_t size_, at_once_;
  Slots slots_;
  mutable Hidden logits_, reference_;
};

class LayerLossRun {
 public:
  LayerLossRun(const LanguageModel& model, const LayerLossRequest& request)
      : model_(model),
        request_(sorted(request)),
        tokens_(used_tokens(model, request_)),
        part_(checked_out(request_.out, model), quality::settings_of(model, request_, tokens_),
              request_, model.shape().num_layers),
        pieces_(model, pieces()) {}

  Indicator run() {
    const std::int64_t num_layers = model_.shape().num_layers;
    const auto done = static_cast<std::int64_t>(part_.layers().size());
    Hidden boundary = pieces_.embed();
    base_ = boundary;
    pieces_.run_layers(model_, 0, num_layers, base_);
    base_losses_ = pieces_.losses(base_);
    if (done > 0 && done < num_layers) pieces_.run_layers(model_, 0, done, boundary);
    for (std::int64_t layer = done; layer < num_layers; ++layer) {
      LayerEffects effects = effects_of(layer, boundary);
      part_.add(std::move(effects), watch_.seconds());
      report(layer + 1);
      if (layer + 1 < num_layers) pieces_.run_layers(model_, layer, layer + 1, boundary);
    }
    Indicator result = indicator();
    if (!request_.out.empty()) write_file(request_.out, json_text(to_json(result), 1) + "\n");
    part_.remove();
    return result;
  }

 private:
  static const std::string& checked_out(const std::string& out, const LanguageModel& model) {
    quality::check_writes_no_input(out, model);
    return out;
  }

  static LayerLossRequest sorted(LayerLossRequest request) {
    std::erase(request.bitwidths, 16);
    check(request);
    std::sort(request.bitwidths.begin(), request.bitwidths.end());
    return request;
  }

  static std::vector<std::int32_t> used_tokens(const LanguageModel& model,
                                               const LayerLossRequest& request) {
    std::vector<std::int32_t> tokens = tokens_of(request.input, model);
    quality::pieces_of(tokens, request.input.name, request.num_pieces, request.piece_tokens,
                       model.shape(), "num_pieces or piece_tokens");
    tokens.resize(static_cast<std::size_t>(request.num_pieces * request.piece_tokens));
    return tokens;
  }

  std::vector<std::span<const std::int32_t>> pieces() const {
    return quality::pieces_of(tokens_, request_.input.name, request_.num_pieces,
                              request_.piece_tokens, model_.shape(), "");
  }

  /// `boundary`: what the layers before it give.
  LayerEffects effects_of(std::int64_t layer, const Hidden& boundary) {
    std::vector<Hidden> finals;
    LayerEffects effects;
    for (const std::int32_t bitwidth : request_.bitwidths) {
      check_stop();
      LayerForm form = request_.form;
      form.bitwidth = bitwidth;
      form.scheme.bitwidth = bitwidth;
      const auto changed = model_.with_layer(layer, form);
      Hidden& hidden = finals.emplace_back(boundary);
      pieces_.run_layers(*changed, layer, model_.shape().num_layers, hidden);
      check_stop();
      if (request_.effect == LayerEffect::divergence) continue;
      effects.push_back(pieces_.losses(hidden));
      for (std::size_t i = 0; i < base_losses_.size(); ++i) effects.back()[i] -= base_losses_[i];
      finals.clear();
    }
    return finals.empty() ? effects : pieces_.divergences(base_, finals);
  }

  void check_stop() const {
    if (!quality::is_set(request_.stop)) return;
    throw Error(
        ErrorCode::interrupted,
        fmt::format(
            "stopped after {} of {} layers{}", part_.layers().size(), model_.shape().num_layers,
            part_.path().empty() || part_.layers().empty()
                ? ""
                : fmt::format("; {} keeps them, and the same command goes on", part_.path())));
  }

  double seconds() const { return part_.spent_s() + watch_.seconds(); }

  static LayerEffectCell cell_of(const std::vector<double>& pieces) {
    const quality::MeanAndError found = quality::mean_of(pieces);
    return {found.mean, *found.standard_error};
  }

  void report(std::int64_t num_done) const {
    if (!request_.progress) return;
    std::vector<LayerEffectCell> cells;
    for (const std::vector<double>& pieces : part_.layers().back())
      cells.push_back(cell_of(pieces));
    request_.progress({num_done, model_.shape().num_layers, cells, seconds()});
  }

  Indicator indicator() const {
    Indicator result;
    result.kind = name_of(request_.effect);
    result.variant = name_of(request_.form.method);
    result.provenance = Provenance::measured;
    result.bitwidths = request_.bitwidths;
    result.bitwidths.push_back(16);
    result.num_layers = part_.layers().size();
    result.overhead_s = seconds();
    std::size_t num_negative = 0, num_unclear = 0;
    for (const LayerEffects& layer : part_.layers()) {
      for (const std::vector<double>& pieces : layer) {
        const LayerEffectCell cell = cell_of(pieces);
        num_negative += cell.mean < 0 ? 1 : 0;
        num_unclear += cell.mean < 2 * cell.standard_error ? 1 : 0;
        result.omega.push_back(std::max(cell.mean, 0.0));
        result.standard_error.push_back(cell.standard_error);
      }
      result.omega.push_back(0);
      result.standard_error.push_back(0);
    }
    result.source = source(num_negative, num_unclear);
    return result;
  }

  std::string source(std::size_t num_negative, std::size_t num_unclear) const {
    const quant::Scheme& scheme = request_.form.scheme;
    const std::string per = scheme.granularity == quant::Granularity::group
                                ? fmt::format("group of {}", scheme.group_size)
                                : std::string(name_of(scheme.granularity));
    return fmt::format(
        "{} {:.6f} nats a token, one layer at a time by {}, {}, a scale per {}{}; {}, {} pieces of "
        "{} tokens of {}; of {} effects {} were below 0, {} below two of their standard errors",
        request_.effect == LayerEffect::loss ? "loss less that of the model as it is,"
                                             : "KL divergence from the model as it is, of loss",
        quality::mean_of(base_losses_).mean, name_of(request_.form.method),
        scheme.symmetric ? "symmetric" : "asymmetric", per,
        request_.form.activation_bitwidth == 16
            ? ""
            : fmt::format(", {}-bit activations", request_.form.activation_bitwidth),
        model_.shape().name, request_.num_pieces, request_.piece_tokens, request_.input.name,
        part_.layers().size() * request_.bitwidths.size(), num_negative, num_unclear);
  }

  const LanguageModel& model_;
  const LayerLossRequest request_;
  const std::vector<std::int32_t> tokens_;  ///< of all pieces
  quality::Stopwatch watch_;
  quality::PartFile part_;
  const Pieces pieces_;
  Hidden base_;  ///< after the last layer
  std::vector<double> base_losses_;
};

}  // namespace

Indicator measure_layer_loss(const LanguageModel& model, const LayerLossRequest& request) {
  return LayerLossRun(model, request).run();
}

}  // namespace tessera::lm
