#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What goes by a name: planners, heuristics, schedulers, routers.
namespace tessera {

/// What is said of one of them. `source` is the paper or the code that it comes from, or "".
struct Card {
  std::string name, doc, source;
};

/// @throws Error{not_found}: "there is no router 'x'; did you mean 'y'?"
[[noreturn]] void refuse_unknown(std::string_view what, const std::string& name,
                                 const std::vector<Card>& cards);

/// Cards in their order, and how one is made by its name. `what` is the word for one: "router".
template <class Interface, class... Arguments>
class Registry {
 public:
  struct Entry {
    Card card;
    std::unique_ptr<Interface> (*make)(Arguments...);
  };

  Registry(std::string what, const std::vector<Entry>& entries) : what_(std::move(what)) {
    for (const Entry& entry : entries) {
      cards_.push_back(entry.card);
      makers_.push_back(entry.make);
    }
  }

  const std::vector<Card>& cards() const { return cards_; }
  bool has(std::string_view name) const { return find(name) < cards_.size(); }

  /// @throws Error{not_found} with the nearest names
  std::unique_ptr<Interface> make(const std::string& name, Arguments... arguments) const {
    const std::size_t found = find(name);
    if (found == cards_.size()) refuse_unknown(what_, name, cards_);
    return makers_[found](std::forward<Arguments>(arguments)...);
  }

 private:
  std::size_t find(std::string_view name) const {
    std::size_t i = 0;
    while (i < cards_.size() && cards_[i].name != name) ++i;
    return i;
  }

  std::string what_;
  std::vector<Card> cards_;
  std::vector<std::unique_ptr<Interface> (*)(Arguments...)> makers_;
};

}  // namespace tessera
