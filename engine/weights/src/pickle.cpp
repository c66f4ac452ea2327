#include "pickle.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "layout.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

constexpr std::size_t kMostValues = 1 << 22;  // files have some thousands
constexpr std::size_t kMostArguments = 16;    // of what is called
constexpr std::size_t kLongestName = 256;     // of what a pickle names

// What rebuilds a tensor of a storage, and what wraps one.
bool rebuilds(std::string_view name) { return name == "torch._utils._rebuild_tensor_v2"; }
bool wraps(std::string_view name) { return name == "torch._utils._rebuild_parameter"; }
bool makes_dict(std::string_view name) { return name == "collections.OrderedDict"; }

bool is_known(std::string_view name) {
  const bool storage = (name.starts_with("torch.") && name.ends_with("Storage") &&
                        name.find('.', 6) == std::string_view::npos);
  return storage || rebuilds(name) || wraps(name) || makes_dict(name);
}

}  // namespace

class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& path, std::uint64_t first_byte,
               Pickle& out)
      : bytes_(bytes), path_(path), first_byte_(first_byte), out_(out) {}

  const Pickled* read() {
    while (true) {
      begin_ = at_;
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') return pop();
      step(code);
    }
  }

 private:
  using Kind = Pickled::Kind;
  using Value = Pickled*;

  [[noreturn]] void fail(const std::string& problem,
                         ErrorCode code = ErrorCode::invalid_argument) const {
    fail_at(path_, first_byte_ + begin_, problem, code);
  }

  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) fail("the pickle ends in the middle of this");
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("the pickle ends in the middle of a name");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  Value make(Kind kind) {
    if (out_.values_.size() >= kMostValues)
      fail(fmt::format("more than {} values, which no state dictionary has", kMostValues));
    out_.values_.push_back({});
    out_.values_.back().kind = kind;
    return &out_.values_.back();
  }
  void push(Value value) { stack_.push_back(value); }
  void push_number(std::int64_t value) {
    push(make(Kind::number));
    stack_.back()->integer = value;
  }
  void push_text(std::string_view text) {
    push(make(Kind::text));
    stack_.back()->text = text;
  }
  Value top() {
    if (stack_.empty() || stack_.back() == nullptr) fail("nothing stands where a value belongs");
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }
  // What stands above the last mark, which goes.
  std::vector<const Pickled*> above_mark() {
    std::size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1] != nullptr) --mark;
    if (mark == 0) fail("there is no mark");
    std::vector<const Pickled*> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark),
                                      stack_.end());
    stack_.resize(mark - 1);
    return items;
  }
  void push_list(std::vector<const Pickled*> items) {
    push(make(Kind::list));
    stack_.back()->items = std::move(items);
  }
  void push_tuple(std::size_t count) {
    std::vector<const Pickled*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }
  void add(Kind kind, const std::vector<const Pickled*>& items) {
    const Value to = top();
    if (to->kind != kind || (kind == Kind::dict && items.size() % 2 != 0))
      fail("values are added to what takes none such");
    if (to->items.size() + items.size() > kMostValues) fail("a list that grew too long");
    to->items.insert(to->items.end(), items.begin(), items.end());
  }

  void push_name(std::string_view module, std::string_view name) {
    const std::string full = fmt::format("{}.{}", module, name);
    if (full.size() > kLongestName || !is_known(full)) {
      fail(fmt::format("the pickle asks for {}, which is no tensor, storage or dictionary; nothing "
                       "of a pickle is executed",
                       quote(full, 100)),
           ErrorCode::unsupported);
    }
    push(make(Kind::name));
    stack_.back()->text = full;
  }
  // A call of a name: of a dictionary, a tensor, or what wraps one.
  void call() {
    const Value arguments = pop(), what = pop();
    if (what->kind != Kind::name || arguments->kind != Kind::list)
      fail("what is called here has no name");
    if (arguments->items.size() > kMostArguments) fail("a call of too many arguments");
    if (makes_dict(what->text) && arguments->items.empty()) return push(make(Kind::dict));
    if (rebuilds(what->text)) {
      push(make(Kind::tensor));
      stack_.back()->items = arguments->items;
      return;
    }
    if (wraps(what->text) && !arguments->items.empty() &&
        arguments->items.front()->kind == Kind::tensor) {
      push(make(Kind::tensor));
      stack_.back()->items = arguments->items.front()->items;
      return;
    }
    fail(quote(what->text, 100) + " is called as PyTorch does not call it");
  }
  void recall(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail(fmt::format("there is no value {} to recall", index));
    push(found->second);
  }
  void push_long(std::uint64_t size) {
    if (size > 8) fail("an integer of more than 64 bits");
    const std::string_view digits = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    const bool negative = size > 0 && (static_cast<unsigned char>(digits[size - 1]) & 0x80) != 0;
    if (negative && size < 8) value |= ~std::uint64_t{0} << (8 * size);
    push_number(static_cast<std::int64_t>(value));
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        if (const int version = number<std::uint8_t>(); version < 2 || version > 5)
          fail(fmt::format("protocol {} of pickles; 2 to 5 are read", version));
        return;
      case 0x95:  // FRAME: how long it is matters to streams
        take(8);
        return;
      case '}':  // EMPTY_DICT
        return push(make(Kind::dict));
      case ']':  // EMPTY_LIST
      case ')':  // EMPTY_TUPLE
        return push(make(Kind::list));
      case '(':  // MARK
        return stack_.push_back(nullptr);
      case 't':  // TUPLE
      case 'l':  // LIST
        return push_list(above_mark());
      case 0x85:  // TUPLE1 to TUPLE3
      case 0x86:
      case 0x87:
        return push_tuple(code - 0x84u);
      case 'q':  // BINPUT
        memo_[number<std::uint8_t>()] = top();
        return;
      case 'r':  // LONG_BINPUT
        memo_[number<std::uint32_t>()] = top();
        return;
      case 0x94: {  // MEMOIZE
        const std::uint64_t index = memo_.size();
        memo_[index] = top();
        return;
      }
      case 'h':  // BINGET
        return recall(number<std::uint8_t>());
      case 'j':  // LONG_BINGET
        return recall(number<std::uint32_t>());
      default:
        return value_or_more(code);
    }
  }

  void value_or_more(unsigned char code) {
    switch (code) {
      case 'X':  // BINUNICODE
        return push_text(take(number<std::uint32_t>()));
      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING
        return push_text(take(number<std::uint8_t>()));
      case 'J':  // BININT
        return push_number(number<std::int32_t>());
      case 'K':  // BININT1
        return push_number(number<std::uint8_t>());
      case 'M':  // BININT2
        return push_number(number<std::uint16_t>());
      case 0x8a:  // LONG1
        return push_long(number<std::uint8_t>());
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push_number(code == 0x88 ? 1 : 0);
      case 'N':  // NONE
        return push(make(Kind::none));
      case 'G':  // BINFLOAT
        take(8);
        return push(make(Kind::real));
      case 'c': {  // GLOBAL
        const std::string_view module = line();
        return push_name(module, line());
      }
      case 0x93: {  // STACK_GLOBAL
        const Value name = pop(), module = pop();
        return push_name(module->text, name->text);
      }
      case 'Q': {  // BINPERSID
        const Value id = pop();
        if (id->items.size() > kMostArguments) fail("a storage of too many words");
        push(make(Kind::storage));
        stack_.back()->items = id->items;
        return;
      }
      case 'R':  // REDUCE
        return call();
      case 'b':  // BUILD: attributes, of a dictionary its _metadata
        pop();
        top();
        return;
      case 's': {  // SETITEM
        const Value value = pop(), key = pop();
        return add(Kind::dict, {key, value});
      }
      case 'u': {  // SETITEMS
        const auto items = above_mark();
        return add(Kind::dict, items);
      }
      case 'a': {  // APPEND
        const Value value = pop();
        return add(Kind::list, {value});
      }
      case 'e': {  // APPENDS
        const auto items = above_mark();
        return add(Kind::list, items);
      }
      default:
        fail(fmt::format("the pickle's operation {:#04x}, which no state dictionary needs", code),
             ErrorCode::unsupported);
    }
  }

  std::string_view bytes_;
  const std::string& path_;
  std::uint64_t first_byte_;
  Pickle& out_;
  std::uint64_t at_ = 0, begin_ = 0;
  std::vector<Value> stack_;  // null: a mark
  std::map<std::uint64_t, Value> memo_;
};

Pickle::Pickle(std::string_view bytes, const std::string& path, std::uint64_t first_byte) {
  root_ = PickleReader(bytes, path, first_byte, *this).read();
}

}  // namespace tessera::weights
