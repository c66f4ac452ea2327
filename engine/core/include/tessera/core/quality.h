#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/indicator.h"
#include "tessera/core/record.h"

namespace tessera {

/// How a checkpoint may be rounded: "gptq" stands for methods that calibrate (GPTQ, AWQ and their
/// like), "rtn" for rounding to nearest.
std::vector<std::string_view> quantisation_methods();

/// How close the measurements behind a statement of quality are to the model: its own loss was
/// measured, another size of its generation, another generation of its family, or none of these.
enum class QualityGrade { measured, sibling, family, unknown };

/// Ends of a 90 % band, and its middle.
struct Band {
  double low = 0, mid = 0, high = 0;

  friend bool operator==(const Band&, const Band&) = default;
};

/// What a plan does to a model, in users' words. All bands are of the same loss, so they are
/// narrow or wide together.
struct Quality {
  Band perplexity_increase;         ///< perplexity over that at 16 bits, less 1; >= -0.01
  Band accuracy_recovery{1, 1, 1};  ///< accuracy over that at 16 bits, of averages of tasks
  Band kl_nats;                     ///< mean divergence per token from the model at 16 bits
  QualityGrade grade = QualityGrade::unknown;
  std::string source;  ///< what the numbers rest on

  friend bool operator==(const Quality&, const Quality&) = default;
};

/// Nothing finer is promised: perplexities and accuracies of equal models scatter as much.
inline constexpr double kFinestQuality = 0.01;

/// Which end of the band a bound is held at.
enum class BoundAt { high, mid };

/// What somebody asks of a plan's quality.
struct QualityBound {
  std::optional<double> max_perplexity_increase;  ///< ratio in [0, 1): 0.01 is 1 %
  std::optional<double> min_accuracy_recovery;    ///< ratio in (0, 1]
  BoundAt at = BoundAt::high;  ///< the unfavourable end of the band, or its middle

  bool is_set() const { return max_perplexity_increase || min_accuracy_recovery; }
  friend bool operator==(const QualityBound&, const QualityBound&) = default;
};

/// What is known of the losses of one model at the bitwidths of one runtime. Losses are rises of
/// the mean loss per token (nats), which add up over layers; a spread is the factor that 90 % of
/// the truth is within.
struct QualityLevels {
  QualityGrade grade = QualityGrade::unknown;
  std::string source;
  std::vector<std::int32_t> bitwidths;  ///< ascending
  std::vector<double> nats;             ///< of the whole model at each of them, falling
  double spread = 1;                    ///< of losses by weights
  std::vector<double> kv_nats;  ///< by a KV cache of kMinKvBitwidth, ... kMaxKvBitwidth bits
  double kv_spread = 1;
  double rise_per_kl = 1, rise_per_kl_spread = 1;              ///< the second of divergences only
  double recovery_per_rise = 1, recovery_per_rise_spread = 1;  ///< -ln(recovery) per nat of rise
  double last_layer = 1;  ///< loss of the last layer over that of another one
  double kv_weight = 1;   ///< nats of the bound's omega per nat by the KV cache

  /// @throws Error{out_of_range} for a bitwidth that is not there
  double at(std::int32_t bitwidth) const;
  double kv_at(std::int32_t bitwidth) const;

  friend bool operator==(const QualityLevels&, const QualityLevels&) = default;
};

/// The kind of an indicator whose omega are nats of a QualityLevels; its variant is the kind that
/// it was made of, empty where none was given.
inline constexpr const char* kQualityIndicator = "quality";

/// Rise of the loss of each layer at each bitwidth, as an indicator of kind `kQualityIndicator`:
/// what the model loses at the bitwidth, shared out as `given` says. A constant indicator: evenly,
/// but for the last layer. Kinds loss and divergence, which ran the model: what they say. Others:
/// by their omega at 4 bits, or the lowest bitwidth that they have. Never less at fewer bits.
Indicator losses_by_layer(const QualityLevels& levels, const Indicator& given);

/// The levels of a model whose own losses were measured (kind loss or divergence), with the rest of
/// `published`; `spread` is how far sums of single layers miss.
QualityLevels measured_levels(const QualityLevels& published, const Indicator& own, double spread);
bool is_measured_loss(const Indicator& indicator);

/// What the losses of the chosen bitwidths and of the KV cache add up to, in users' words.
Quality quality_of(const QualityLevels& levels, double weights_nats, double kv_nats);

/// The largest sum of losses that keeps the bound, in nats; sets how much the KV cache's count.
/// A bound below 1 % leaves room for nothing.
double most_nats(QualityLevels& levels, const QualityBound& bound);

/// One line: "perplexity +0.8 % (0.1 to 3.9), accuracy 99.7 % (98 to 100.9) of 16 bits, ..."
std::string in_words(const Quality& quality);

template <>
inline constexpr auto kEnumNames<QualityGrade> =
    enum_names<QualityGrade>({{QualityGrade::measured, "measured"},
                              {QualityGrade::sibling, "sibling"},
                              {QualityGrade::family, "family"},
                              {QualityGrade::unknown, "unknown"}});

template <>
inline constexpr auto kEnumNames<BoundAt> = enum_names<BoundAt>({{BoundAt::high, "high"},
                                                                 {BoundAt::mid, "mid"}});

template <>
struct Fields<Band> {
  static constexpr auto end = [](std::string_view name, std::string_view doc) -> FieldSpec {
    return {.name = name, .doc = doc, .min = -1, .max = kHuge};
  };
  static constexpr auto list = std::tuple{field<&Band::low>(end("low", "Lower end")),
                                          field<&Band::mid>(end("mid", "Best guess")),
                                          field<&Band::high>(end("high", "Upper end"))};

  /// The ends are in order.
  static void check(const Band& band, const FieldPath& path);
};

template <>
struct Fields<Quality> {
  static constexpr auto list = std::tuple{
      field<&Quality::perplexity_increase>(
          {.name = "perplexity_increase", .doc = "Over the perplexity at 16 bits (ratio)"}),
      field<&Quality::accuracy_recovery>(
          {.name = "accuracy_recovery", .doc = "Of the accuracy at 16 bits (ratio)"}),
      field<&Quality::kl_nats>(
          {.name = "kl_nats", .doc = "Divergence per token from the model at 16 bits"}),
      field<&Quality::grade>({.name = "grade", .doc = "How close the measurements are"}),
      field<&Quality::source>({.name = "source", .doc = "What the numbers rest on"})};
};

template <>
struct Fields<QualityBound> {
  using B = QualityBound;
  static constexpr auto list = std::tuple{
      field<&B::max_perplexity_increase>(
          {.name = "max_perplexity_increase",
           .doc = "Quality: perplexity over that at 16 bits, less 1; 0.01 is 1 %",
           .unit = "ratio",
           .in_file = InFile::when_set}),
      field<&B::min_accuracy_recovery>({.name = "min_accuracy_recovery",
                                        .doc = "Quality: accuracy over that at 16 bits, of "
                                               "averages of tasks; 0.99 is 99 %",
                                        .unit = "ratio",
                                        .in_file = InFile::when_set}),
      field<&B::at>({.name = "at",
                     .doc = "End of the band that keeps the bound: high, the unfavourable one, or "
                            "mid",
                     .in_file = InFile::when_set,
                     .as_option = AsOption::defaulted,
                     .as_flag = false})};

  /// Ratios in [0, 1) and (0, 1]: who writes 5 for 5 % is told so.
  static void check(const B& bound, const FieldPath& path);
};

template <>
struct Fields<QualityLevels> {
  using L = QualityLevels;
  static constexpr auto factor = [](std::string_view name) -> FieldSpec {
    return {.name = name, .doc = "A factor", .min = 0, .max = 1e6};
  };
  static constexpr auto list = std::tuple{
      field<&L::grade>({.name = "grade", .doc = "How close the measurements are"}),
      field<&L::source>({.name = "source", .doc = "Where they are from"}),
      field<&L::bitwidths, AscendingBitwidths>(
          {.name = "bitwidths", .doc = "Of the weights", .min = 1, .max = kMaxIndicatorBitwidth}),
      field<&L::nats>({.name = "nats", .doc = "At each of them", .min = 0, .max = kHuge}),
      field<&L::spread>(factor("spread")),
      field<&L::kv_nats>({.name = "kv_nats", .doc = "At 2 to 16 bits", .min = 0, .max = kHuge}),
      field<&L::kv_spread>(factor("kv_spread")),
      field<&L::rise_per_kl>(factor("rise_per_kl")),
      field<&L::rise_per_kl_spread>(factor("rise_per_kl_spread")),
      field<&L::recovery_per_rise>(factor("recovery_per_rise")),
      field<&L::recovery_per_rise_spread>(factor("recovery_per_rise_spread")),
      field<&L::last_layer>(factor("last_layer")),
      field<&L::kv_weight>(factor("kv_weight"))};

  /// As many losses as bitwidths.
  static void check(const L& levels, const FieldPath& path);
};

}  // namespace tessera
