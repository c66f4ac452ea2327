// Which points to measure: Bayesian experimental design on the linearised calibration (K. Chaloner
// and I. Verdinelli, Statistical Science 10, 1995), greedily.

#include "tessera/cost/design.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "additive.h"
#include "attention_terms.h"
#include "gemm_fit.h"
#include "tessera/core/error.h"

namespace tessera::cost {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using models::GemmShape;
using models::GemmTiles;
using Queries = std::vector<const OpQuery*>;

constexpr double kNoise = 0.12;  // logarithm: of a measurement, and of what no model follows
constexpr double kMove = 0.05;   // of the numeric derivative
// What all terms of attention, and each of them, are off by from one GPU to another.
constexpr double kCommonDeviation = 0.5, kTermDeviation = 0.5;

GemmShape shape_of(const OpQuery& query) { return {query.m, query.n, query.k}; }

/// Covariance a priori of the logarithms of what a calibration may say of products of one dtype.
MatrixXd gemm_covariances(const Device& device, const Queries& queries) {
  const models::GemmRates rates = models::gemm_rates(device, queries.front()->dtype);
  const auto start = GemmTiles::to_free(GemmTiles::typical());
  const MatrixXd directions = models::gemm_scale_directions();
  const VectorXd deviations = kNoise * models::gemm_scale_precision().cwiseSqrt().cwiseInverse();
  const auto count = static_cast<Index>(queries.size());
  const auto logs = [&](const GemmTiles::Vector& free) {
    const GemmTiles tiles(rates, GemmTiles::from_free(free));
    VectorXd result(count);
    for (Index i = 0; i < count; ++i) {
      result[i] = std::log(tiles.seconds(shape_of(*queries[static_cast<std::size_t>(i)])));
    }
    return result;
  };
  const VectorXd before = logs(start);
  MatrixXd rows(count, directions.cols());
  for (Index j = 0; j < directions.cols(); ++j) {
    rows.col(j) = (logs(start + kMove * directions.col(j)) - before) * (deviations[j] / kMove);
  }
  MatrixXd result = rows * rows.transpose();
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < count; ++j) {
      result(i, j) += models::gemm_covariance(shape_of(*queries[static_cast<std::size_t>(i)]),
                                              shape_of(*queries[static_cast<std::size_t>(j)]));
    }
  }
  return result;
}

/// Shares of the terms in a time; of decode those of both kernels, one after the other.
VectorXd attention_shares(const Device& device, const OpQuery& query) {
  const models::AttentionDevice seen_as = models::attention_device(device, query.dtype);
  const auto shares = [](const VectorXd& terms, const std::vector<models::Term>& names) {
    const VectorXd seconds = terms.cwiseProduct(models::typical_of(names));
    return VectorXd(seconds / seconds.sum());
  };
  if (query.phase == Phase::prefill) {
    constexpr double kTile = 128;
    return shares(models::prefill_terms(seen_as, kTile, query), models::prefill_terms());
  }
  const models::GroupedShape shape;
  const auto first = static_cast<Index>(models::per_head_terms().size());
  const auto second = static_cast<Index>(models::grouped_terms().size());
  VectorXd result = VectorXd::Zero(first + second);
  if (models::grouped_chosen(seen_as, shape, query)) {
    result.tail(second) =
        shares(models::grouped_terms(seen_as, shape, query), models::grouped_terms());
  } else {
    result.head(first) = shares(models::per_head_terms(seen_as, query), models::per_head_terms());
  }
  return result;
}

MatrixXd attention_covariances(const Device& device, const Queries& queries) {
  const auto count = static_cast<Index>(queries.size());
  MatrixXd rows;
  for (Index i = 0; i < count; ++i) {
    const VectorXd shares = attention_shares(device, *queries[static_cast<std::size_t>(i)]);
    if (i == 0) rows.resize(count, shares.size());
    rows.row(i) = kTermDeviation * shares.transpose();
  }
  return (rows * rows.transpose()).array() + kCommonDeviation * kCommonDeviation;
}

using PartKey = std::tuple<Op, std::string, std::string, Phase>;

PartKey key_of(const OpQuery& query) {
  if (query.op != Op::gemm && query.op != Op::attention) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: points are designed for products and attention alone", describe(query)),
        "candidates");
  }
  const bool phased = query.op == Op::attention;
  return {query.op, query.dtype, phased ? query.kv_dtype : "",
          phased ? query.phase : Phase::prefill};
}

/// Covariances of all candidates: parts are fitted apart, so nothing passes between them.
MatrixXd covariances(const Device& device, const std::vector<OpQuery>& candidates) {
  std::map<PartKey, std::vector<Index>> parts;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    check_query(candidates[i]);
    parts[key_of(candidates[i])].push_back(static_cast<Index>(i));
  }
  const auto count = static_cast<Index>(candidates.size());
  MatrixXd result = MatrixXd::Zero(count, count);
  for (const auto& [key, indices] : parts) {
    Queries queries;
    for (const Index i : indices) queries.push_back(&candidates[static_cast<std::size_t>(i)]);
    const MatrixXd part = std::get<Op>(key) == Op::gemm ? gemm_covariances(device, queries)
                                                        : attention_covariances(device, queries);
    result(indices, indices) = part;
  }
  return result;
}

/// What measuring each candidate is worth: the variance that it takes from all, or its own.
VectorXd gains(const MatrixXd& left, Design design) {
  const VectorXd own = left.diagonal();
  if (design == Design::d_optimal) return own;
  return left.colwise().squaredNorm().transpose().array() / (own.array() + kNoise * kNoise);
}

}  // namespace

std::vector<std::size_t> design_points(const Device& device, const std::vector<OpQuery>& candidates,
                                       std::size_t count, Design design) {
  if (count > candidates.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} points of {} candidates; ask for fewer, or give more candidates",
                            count, candidates.size()),
                "count");
  }
  MatrixXd left = covariances(device, candidates);
  VectorXd taken = VectorXd::Zero(left.rows());
  std::vector<std::size_t> points;
  while (points.size() < count) {
    Index best = 0;
    (gains(left, design).array() * (1 - taken.array()) - taken.array()).maxCoeff(&best);
    points.push_back(static_cast<std::size_t>(best));
    taken[best] = 1;
    const VectorXd column = left.col(best);
    left.noalias() -= column * column.transpose() / (column[best] + kNoise * kNoise);
  }
  return points;
}

}  // namespace tessera::cost
