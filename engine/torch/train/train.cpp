#include "tessera/lm/train.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "adamw.h"
#include "checkpoint.h"
#include "loss.h"
#include "parameters.h"
#include "request.h"
#include "tessera/core/error.h"
#include "windows.h"

namespace tessera::lm {
namespace train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One thread for LibTorch as long as it lives: the workers share the processors already.
class SingleThreaded {
 public:
  SingleThreaded() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~SingleThreaded() { at::set_num_threads(before_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

/// A replica that shares the values with the others and has gradients of its own. One thread per
/// replica beats threads inside each product: they meet once per step, not hundreds of times.
struct Worker {
  at::Tensor gradients;
  Parameters parameters;
  double loss = 0;
  std::exception_ptr failure;

  Worker(const TrainRequest& request, const at::Tensor& values)
      : gradients(at::zeros_like(values)), parameters(view_of(request, values, gradients)) {}

  void run(const TrainRequest& request, const at::Tensor& windows) noexcept {
    try {
      const SingleThreaded single_threaded;
      gradients.zero_();
      const at::Tensor mean = loss_of(parameters, request.num_heads, windows,
                                      request.bf16_products ? Products::bf16 : Products::f32);
      ::torch::autograd::backward({mean}, {});
      loss = mean.item<double>();
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

class Trainer {
 public:
  explicit Trainer(const TrainRequest& request)
      : request_(request),
        values_(request.initial.empty() ? initial_values(request) : read_values(request)),
        windows_(request),
        optimiser_(request, values_, decay_mask(request)) {
    workers_.reserve(static_cast<std::size_t>(request.num_threads));
    for (int i = 0; i < request.num_threads; ++i) workers_.emplace_back(request, values_);
  }

  /// Returns the mean loss of the last steps. @throws Error{interrupted}
  double run() {
    double loss = 0, sum = 0;
    std::int64_t reported = 0;
    auto last = start_;
    for (std::int64_t step = 0; step < request_.num_steps; ++step) {
      sum += gradient_of(windows_.next_batch());
      const double rate = learning_rate(request_, step);
      const double norm = optimiser_.step(workers_[0].gradients, rate);
      const std::int64_t done = step + 1;
      if (request_.interrupted && request_.interrupted()) stop(done);
      if (done % request_.report_every != 0 && done != request_.num_steps) continue;
      loss = sum / static_cast<double>(done - reported);
      const auto tokens = static_cast<double>((done - reported) * tokens_per_step());
      const TrainProgress progress{
          done, loss, rate, norm, seconds_since(start_), tokens / seconds_since(last)};
      if (request_.progress && !request_.progress(progress)) stop(done);
      sum = 0;
      reported = done;
      last = Clock::now();
    }
    return loss;
  }

  const at::Tensor& values() const { return values_; }
  double elapsed_s() const { return seconds_since(start_); }
  std::int64_t tokens_per_step() const { return request_.batch_size * request_.max_context_tokens; }

 private:
  [[noreturn]] void stop(std::int64_t done) const {
    throw Error(ErrorCode::interrupted,
                fmt::format("training was stopped after {} of {} steps; nothing was written", done,
                            request_.num_steps));
  }

  /// Leaves the mean gradient in the first worker; returns the mean loss.
  double gradient_of(const at::Tensor& windows) {
    const auto count = static_cast<std::int64_t>(workers_.size());
    const auto shares = windows.chunk(count, 0);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < workers_.size(); ++i) {
        threads.emplace_back([this, i, &shares] { workers_[i].run(request_, shares[i]); });
      }
      workers_[0].run(request_, shares[0]);
    }
    double loss = 0;
    for (Worker& worker : workers_) {
      if (worker.failure) std::rethrow_exception(worker.failure);
      loss += worker.loss / static_cast<double>(count);
      if (&worker != workers_.data()) workers_[0].gradients.add_(worker.gradients);
    }
    workers_[0].gradients.div_(static_cast<double>(count));
    return loss;
  }

  const TrainRequest& request_;
  at::Tensor values_;
  Windows windows_;
  AdamW optimiser_;
  std::vector<Worker> workers_;
  Clock::time_point start_ = Clock::now();
};

std::optional<double> held_out_loss(const TrainRequest& request, const at::Tensor& values) {
  const at::Tensor windows = all_windows(request.held_out_tokens, request.max_context_tokens);
  if (windows.size(0) == 0) return std::nullopt;
  const c10::InferenceMode no_gradients;
  const Parameters parameters = view_of(request, values);
  double sum = 0;
  for (const at::Tensor& batch : windows.split(8)) {
    sum += loss_of(parameters, request.num_heads, batch).item<double>() *
           static_cast<double>(batch.size(0));
  }
  return sum / static_cast<double>(windows.size(0));
}

}  // namespace
}  // namespace train

TrainSummary train_decoder(const TrainRequest& request) {
  train::check(request);
  TrainSummary summary;
  train::Trainer trainer(request);
  summary.num_parameters = train::num_parameters(request);
  summary.loss_nats = trainer.run();
  summary.num_tokens = request.num_steps * trainer.tokens_per_step();
  const at::Tensor written = train::written_values(request, trainer.values());
  summary.held_out_loss_nats = train::held_out_loss(request, written);
  train::write_checkpoint(request, written);
  summary.elapsed_s = trainer.elapsed_s();
  return summary;
}

}  // namespace tessera::lm
