#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::weights {

/// What a pickle says, of what state dictionaries of PyTorch hold.
struct Pickled {
  enum class Kind {
    none,
    number,   ///< `integer`; truth values too
    real,     ///< no weight of a model is one, so its value is not kept
    text,     ///< `text`
    list,     ///< `items`: lists and tuples
    dict,     ///< `items`: key, value, key, value, ...
    name,     ///< `text`: "torch._utils._rebuild_tensor_v2", not looked up
    storage,  ///< `items`: of a persistent id
    tensor    ///< `items`: the arguments of what rebuilds it
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  std::string text;
  std::vector<const Pickled*> items;
};

/// Reads a pickle (protocols 2 to 5) of a state dictionary and executes nothing of it: there are
/// values for what it names, and a name that is none of those of tensors, storages and dictionaries
/// is refused. Source: Lib/pickletools.py of CPython; torch/_utils.py and torch/serialization.py.
class Pickle {
 public:
  /// @param path, first_byte where it stands, for errors
  /// @throws Error{invalid_argument} naming file and byte, Error{unsupported} naming what else a
  /// pickle may hold
  Pickle(std::string_view bytes, const std::string& path, std::uint64_t first_byte);

  const Pickled& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<Pickled> values_;
  const Pickled* root_ = nullptr;
};

}  // namespace tessera::weights
