#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tessera/core/files.h"

namespace tessera {

/// What was made of files, kept while their content stays. Safe to share among threads.
template <class Value>
class FileCache {
 public:
  /// @param make called with the content of the file where it is new
  /// @throws Error of reading, and of `make`
  template <class Make>
  std::shared_ptr<const Value> get(const std::string& path, const Make& make) {
    std::string content = read_file(path);
    const std::lock_guard lock(mutex_);
    Known& known = known_[path];
    if (known.value == nullptr || known.content != content) {
      auto value = std::make_shared<const Value>(make(content));
      known = {std::move(content), std::move(value)};
    }
    return known.value;
  }

 private:
  struct Known {
    std::string content;
    std::shared_ptr<const Value> value;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace tessera
