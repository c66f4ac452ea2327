#include "correction.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "tessera/core/error.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kSteps = 6;
constexpr double kPrecision = 0.2;  // of the prior
constexpr double kPermille = 1000;
constexpr std::int64_t kMostPermille = 8000;

/// The features that occur, numbered anew.
struct Occurring {
  std::vector<int> features;  ///< [new] old
  FeatureRows rows;
};

Occurring occurring(const FeatureRows& rows, int num_features) {
  std::vector<int> position(static_cast<std::size_t>(num_features), -1);
  Occurring result{{}, rows};
  for (auto& row : result.rows) {
    for (Feature& feature : row) {
      int& at = position[static_cast<std::size_t>(feature.index)];
      if (at < 0) {
        at = static_cast<int>(result.features.size());
        result.features.push_back(feature.index);
      }
      feature.index = at;
    }
  }
  return result;
}

// Weighted ridge regression by the normal equations, for more rows than features.
VectorXd ridge_by_features(const FeatureRows& rows, Index count, const VectorXd& target,
                           const VectorXd& weights) {
  MatrixXd normal = MatrixXd::Zero(count, count);
  VectorXd right = VectorXd::Zero(count);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<Index>(i);
    for (const Feature& a : rows[i]) {
      right[a.index] += weights[at] * a.value * target[at];
      for (const Feature& b : rows[i]) {
        if (b.index <= a.index) normal(a.index, b.index) += weights[at] * a.value * b.value;
      }
    }
  }
  normal.diagonal().array() += kPrecision;
  return normal.selfadjointView<Eigen::Lower>().llt().solve(right);
}

// The same by one unknown for each row, for few rows.
VectorXd ridge_by_rows(const FeatureRows& rows, Index count, const VectorXd& target,
                       const VectorXd& weights) {
  const auto num_rows = static_cast<Index>(rows.size());
  MatrixXd design = MatrixXd::Zero(num_rows, count);
  for (Index i = 0; i < num_rows; ++i) {
    for (const Feature& a : rows[static_cast<std::size_t>(i)]) design(i, a.index) += a.value;
  }
  MatrixXd kernel = design * design.transpose() / kPrecision;
  kernel.diagonal() += weights.cwiseInverse();
  return design.transpose() * kernel.llt().solve(target) / kPrecision;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void reweigh(const VectorXd& errors, VectorXd& weights) {
  weights = kCorrectionScale / errors.array().abs().max(kCorrectionScale);
}

VectorXd fit_correction(const FeatureRows& rows, const VectorXd& target, int num_features) {
  const Occurring used = occurring(rows, num_features);
  const auto count = static_cast<Index>(used.features.size());
  VectorXd weights = VectorXd::Ones(target.size()), errors(target.size()), found;
  for (int step = 0; step < kSteps; ++step) {
    found = target.size() < count ? ridge_by_rows(used.rows, count, target, weights)
                                  : ridge_by_features(used.rows, count, target, weights);
    for (std::size_t i = 0; i < used.rows.size(); ++i) {
      const auto at = static_cast<Index>(i);
      errors[at] = target[at] - dot(used.rows[i], found);
    }
    reweigh(errors, weights);
  }
  VectorXd result = VectorXd::Zero(num_features);
  for (Index i = 0; i < count; ++i) result[used.features[static_cast<std::size_t>(i)]] = found[i];
  return result;
}

VectorXd kriging_shares(const MatrixXd& between, const VectorXd& target) {
  VectorXd weights = VectorXd::Ones(target.size()), shares;
  for (int step = 0; step < kSteps; ++step) {
    MatrixXd total = between;
    total.diagonal() += kCorrectionScale * kCorrectionScale * weights.cwiseInverse();
    shares = total.llt().solve(target);
    reweigh(target - between * shares, weights);
  }
  return shares;
}

VectorXd rounded_correction(const VectorXd& correction) {
  VectorXd kept = correction;
  const double most = kMostPermille / kPermille;
  for (double& value : kept) {
    value = std::clamp(std::round(value * kPermille) / kPermille, -most, most);
  }
  return kept;
}

std::string write_correction(const VectorXd& correction) {
  std::string text;
  for (Index i = 0; i < correction.size();) {
    const std::int64_t value = std::lround(correction[i] * kPermille);
    Index end = i + 1;
    while (value == 0 && end < correction.size() && std::lround(correction[end] * kPermille) == 0)
      ++end;
    if (!text.empty()) text += ' ';
    text += end - i > 2 ? fmt::format("0x{}", end - i) : fmt::format("{}", value);
    i = end - i > 2 ? end : i + 1;
  }
  return text;
}

VectorXd read_correction(const std::string& text, int count, const std::string& path) {
  const auto most = static_cast<std::size_t>(count);
  std::istringstream in(text);
  std::vector<double> values;
  bool whole = true;
  for (std::string word; whole && in >> word;) {
    if (word.starts_with("0x")) {
      const auto zeros = whole_number(std::string_view(word).substr(2));
      whole = zeros && *zeros > 0 && static_cast<std::size_t>(*zeros) <= most - values.size();
      if (whole) values.insert(values.end(), static_cast<std::size_t>(*zeros), 0);
    } else {
      const auto value = whole_number(word);
      whole = value && std::abs(*value) <= kMostPermille && values.size() < most;
      if (whole) values.push_back(static_cast<double>(*value) / kPermille);
    }
  }
  if (!whole || values.size() != most) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} whole numbers within +-{} belong here, separated by spaces "
                            "(0x12 for twelve zeros); the first {} are such",
                            path, count, kMostPermille, values.size()),
                "correction_permille");
  }
  return Eigen::Map<const VectorXd>(values.data(), static_cast<Index>(values.size()));
}

}  // namespace tessera::cost::models
