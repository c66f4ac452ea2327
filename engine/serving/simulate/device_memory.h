#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tessera/serving/models.h"

namespace tessera::serving {

/// What engines take of the memory of devices that they share. Sums are made anew at each look, so
/// that what is given back is what was taken.
class DeviceMemory {
 public:
  explicit DeviceMemory(const std::vector<SharedDevice>& devices);

  /// @throws Error{invalid_argument} for devices that are not there or stand twice, without
  /// stage_bytes, and for memory that is not free
  void take(std::size_t engine, const Replica& replica, const std::string& model);
  void give_back(std::size_t engine);
  bool has(std::size_t engine) const { return taken_.contains(engine); }
  bool is_empty() const { return taken_.empty(); }

  double free_bytes(std::size_t device) const;
  double peak_bytes(std::size_t device) const { return peak_[device]; }
  /// Names of the models on it.
  std::vector<std::string> models(std::size_t device) const;

 private:
  struct Part {
    std::size_t device = 0;
    double bytes = 0;
  };
  struct Taken {
    std::string model;
    std::vector<Part> parts;
  };
  double used_bytes(std::size_t device) const;

  const std::vector<SharedDevice>& devices_;
  std::map<std::size_t, Taken> taken_;  ///< by engine
  std::vector<double> peak_;
};

}  // namespace tessera::serving
