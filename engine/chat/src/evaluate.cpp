#include "evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "arithmetic.h"
#include "lexer.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::chat {
namespace {

constexpr std::int64_t kMostSteps = 2'000'000;  // expressions and statements
constexpr int kMostCalls = 50;                  // of macros inside of each other

/// Names of a loop's turn, a macro's call, or the template.
struct Frame {
  std::vector<std::pair<std::string, Value>> names = {};
  const Frame* outside = nullptr;

  const Value* find(std::string_view name) const {
    for (const Frame* frame = this; frame != nullptr; frame = frame->outside) {
      if (const Value* found = chat::find(frame->names, name)) return found;
    }
    return nullptr;
  }
  void set(const std::string& name, Value value) {
    for (auto& [known, held] : names) {
      if (known == name) return void(held = std::move(value));
    }
    names.emplace_back(name, std::move(value));
  }
};

enum class Flow { on, next, leave };

class Evaluator {
 public:
  explicit Evaluator(Dict variables) {
    globals_.names = std::move(variables);
    globals_.set("range", Value::Function(range_of));
    globals_.set("namespace", Value::Function([](const Arguments& given) {
                   Value made = Value::new_namespace();
                   for (const auto& [name, value] : given.named) put(made, name, value);
                   return made;
                 }));
    globals_.set("dict",
                 Value::Function([](const Arguments& given) { return Value(given.named); }));
    globals_.set("raise_exception", Value::Function([](const Arguments& given) -> Value {
                   throw Error(ErrorCode::invalid_argument, text_of(given.at(0, "message")));
                 }));
    frame_ = &globals_;
  }

  std::string run(const Block& block) {
    this->block(block);
    return std::move(out_);
  }

 private:
  void step(int line) {
    if (++steps_ > kMostSteps) {
      throw Error(ErrorCode::out_of_range, fmt::format("line {}: it does not end", line));
    }
  }

  static void put(const Value& name_space, const std::string& field, const Value& value) {
    if (value.name_space() || value.function())
      throw Error(ErrorCode::unsupported, "a namespace with " + std::string(value.type_name()));
    name_space.name_space()->fields[field] = value;
  }

  void print(const std::string& text) {
    out_ += text;
    if (out_.size() > kMostText) throw Error(ErrorCode::out_of_range, "the text is too long");
  }

  // ------------------------------------------------------------------------------------ statements

  Flow block(const Block& block) {
    for (const Statement& s : block) {
      if (const Flow flow = statement(s); flow != Flow::on) return flow;
    }
    return Flow::on;
  }

  Flow statement(const Statement& s) {
    step(s.line);
    switch (s.kind) {
      case StatementKind::text:
        print(s.text);
        return Flow::on;
      case StatementKind::print:
        print(text_of(value(*s.value)));
        return Flow::on;
      case StatementKind::choice:
        return choice(s);
      case StatementKind::loop:
        loop(s);
        return Flow::on;
      case StatementKind::set:
        assign(s, value(*s.value));
        return Flow::on;
      case StatementKind::set_text:
        set_text(s);
        return Flow::on;
      case StatementKind::macro:
        define(s);
        return Flow::on;
      case StatementKind::body:
        return block(s.blocks[0]);
      case StatementKind::leave:
        return Flow::leave;
      case StatementKind::next:
        return Flow::next;
    }
    return Flow::on;
  }

  Flow choice(const Statement& s) {
    for (std::size_t i = 0; i < s.conditions.size(); ++i) {
      if (value(*s.conditions[i]).is_true()) return block(s.blocks[i]);
    }
    return s.blocks.size() > s.conditions.size() ? block(s.blocks.back()) : Flow::on;
  }

  void bind(const Statement& s, const Value& item) {
    if (s.names.size() == 1) return frame_->set(s.names[0], item);
    const List parts = items_of(item);
    if (parts.size() != s.names.size()) {
      refuse_line(s.line, fmt::format("{} values for {} names", parts.size(), s.names.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) frame_->set(s.names[i], parts[i]);
  }

  static Value loop_variable(const List& items, std::size_t i) {
    const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
    const std::size_t count = items.size();
    return Dict{{"index", number(i + 1)},
                {"index0", number(i)},
                {"revindex", number(count - i)},
                {"revindex0", number(count - i - 1)},
                {"first", i == 0},
                {"last", i + 1 == count},
                {"length", number(count)},
                {"previtem", i > 0 ? items[i - 1] : Value::undefined("previtem")},
                {"nextitem", i + 1 < count ? items[i + 1] : Value::undefined("nextitem")}};
  }

  void loop(const Statement& s) {
    List items = items_of(value(*s.value));
    Frame turn{.outside = frame_};
    Frame* const before = std::exchange(frame_, &turn);
    if (!s.conditions.empty()) {
      std::erase_if(items, [&](const Value& item) {
        turn.names.clear();
        bind(s, item);
        return !value(*s.conditions[0]).is_true();
      });
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      step(s.line);
      turn.names.clear();
      bind(s, items[i]);
      turn.set("loop", loop_variable(items, i));
      if (block(s.blocks[0]) == Flow::leave) break;
    }
    frame_ = before;
    if (items.empty() && s.blocks.size() > 1) block(s.blocks[1]);
  }

  void assign(const Statement& s, const Value& given) {
    if (s.field.empty()) return bind(s, given);
    const Value* held = frame_->find(s.names[0]);
    if (!held || !held->name_space())
      refuse_line(s.line, fmt::format("{} is no namespace", quote(s.names[0])));
    put(*held, s.field, given);
  }

  void set_text(const Statement& s) {
    std::string before = std::exchange(out_, {});
    block(s.blocks[0]);
    frame_->set(s.names[0], std::exchange(out_, std::move(before)));
  }

  void define(const Statement& s) {
    frame_->set(s.text,
                Value::Function([this, &s](const Arguments& given) { return call(s, given); }));
  }

  Value call(const Statement& macro, const Arguments& given) {
    if (++calls_ > kMostCalls)
      throw Error(ErrorCode::out_of_range, "macros call each other too deep");
    if (given.values.size() > macro.names.size())
      refuse_line(macro.line, fmt::format("the macro {} takes {} arguments", quote(macro.text),
                                          macro.names.size()));
    Frame inside{.outside = &globals_};
    Frame* const before = std::exchange(frame_, &inside);
    for (std::size_t i = 0; i < macro.names.size(); ++i) {
      Value argument = given.at(i, macro.names[i]);
      if (argument.is_undefined() && macro.conditions[i]) argument = value(*macro.conditions[i]);
      inside.set(macro.names[i], std::move(argument));
    }
    std::string outside = std::exchange(out_, {});
    block(macro.blocks[0]);
    frame_ = before;
    --calls_;
    return std::exchange(out_, std::move(outside));
  }

  // ----------------------------------------------------------------------------------- expressions

  Value value(const Expression& e) {
    step(e.line);
    try {
      return value_of(e);
    } catch (const Error& error) {
      const bool has_line = error.message().starts_with("line ") || is_raised(e);
      if (has_line) throw;
      throw Error(error.code(), fmt::format("line {}: {}", e.line, error.message()));
    }
  }

  // What a template itself says is told as it says it.
  bool is_raised(const Expression& e) {
    if (e.kind == ExpressionKind::call && e.parts[0]->word == "raise_exception") raised_ = true;
    return raised_;
  }

  Value value_of(const Expression& e) {
    switch (e.kind) {
      case ExpressionKind::literal:
        return e.value;
      case ExpressionKind::name: {
        const Value* found = frame_->find(e.word);
        return found ? *found : Value::undefined(e.word);
      }
      case ExpressionKind::list: {
        List list;
        for (const ExpressionPtr& part : e.parts) list.push_back(value(*part));
        return list;
      }
      case ExpressionKind::dict:
        return dict(e);
      case ExpressionKind::attribute:
        return attribute(value(*e.parts[0]), e.word);
      case ExpressionKind::item:
        return item(value(*e.parts[0]), value(*e.parts[1]));
      case ExpressionKind::slice:
        return slice(e);
      case ExpressionKind::call:
        return call_of(e);
      case ExpressionKind::filter:
        return filter(e);
      case ExpressionKind::test:
        return tested(e.word, value(*e.parts[0]), arguments(e.arguments));
      case ExpressionKind::unary:
        return unary(e);
      case ExpressionKind::binary:
        return binary(e);
      case ExpressionKind::compared:
        return compared(e);
      case ExpressionKind::chosen:
        if (value(*e.parts[1]).is_true()) return value(*e.parts[0]);
        return e.parts[2] ? value(*e.parts[2]) : Value::undefined("the missing else");
    }
    return {};
  }

  Arguments arguments(const CallArguments& given) {
    Arguments all;
    for (const ExpressionPtr& part : given.values) all.values.push_back(value(*part));
    for (const auto& [name, part] : given.named) all.named.emplace_back(name, value(*part));
    return all;
  }

  Value dict(const Expression& e) {
    Dict made;
    for (std::size_t i = 0; i < e.parts.size(); i += 2) {
      const Value key = value(*e.parts[i]);
      if (!key.text()) refuse_line(e.line, "a key is no text");
      Value held = value(*e.parts[i + 1]);
      std::erase_if(made, [&](const auto& entry) { return entry.first == *key.text(); });
      made.emplace_back(*key.text(), std::move(held));
    }
    return made;
  }

  static Value attribute(const Value& of, const std::string& name) {
    if (of.is_undefined()) refuse("template", "{} is undefined", quote(of.undefined_name()));
    if (const Dict* dict = of.dict()) {
      const Value* found = find(*dict, name);
      return found ? *found : Value::undefined(name);
    }
    if (const Value::Namespace* name_space = of.name_space()) {
      const auto found = name_space->fields.find(name);
      return found == name_space->fields.end() ? Value::undefined(name) : found->second;
    }
    return Value::undefined(name);
  }

  static Value item(const Value& of, const Value& key) {
    if (of.is_undefined()) refuse("template", "{} is undefined", quote(of.undefined_name()));
    if (key.text()) return attribute(of, *key.text());
    const List* list = of.list();
    std::vector<std::string> characters;
    if (of.text()) characters = characters_of(*of.text());
    if (!key.integer() || (!list && !of.text())) return Value::undefined(text_of(key));
    const auto count = static_cast<std::int64_t>(list ? list->size() : characters.size());
    const std::int64_t i = *key.integer() < 0 ? *key.integer() + count : *key.integer();
    if (i < 0 || i >= count) return Value::undefined(text_of(key));
    const auto place = static_cast<std::size_t>(i);
    return list ? (*list)[place] : Value(characters[place]);
  }

  Value slice(const Expression& e) {
    const Value of = value(*e.parts[0]);
    if (!of.list() && !of.text()) refuse_line(e.line, fmt::format("{} is cut", of.type_name()));
    const List items = items_of(of);
    const std::int64_t count = std::ssize(items);
    const auto number = [&](std::size_t i) -> std::optional<std::int64_t> {
      if (!e.parts[i]) return std::nullopt;
      const Value given = value(*e.parts[i]);
      if (given.is_none()) return std::nullopt;
      if (!given.integer()) refuse_line(e.line, "a slice has integers");
      return *given.integer();
    };
    const std::int64_t by = number(3).value_or(1);
    if (by == 0) refuse_line(e.line, "a slice goes on by 0");
    const auto place = [&](std::optional<std::int64_t> given, std::int64_t otherwise) {
      if (!given) return otherwise;
      const std::int64_t i = *given < 0 ? *given + count : *given;
      return by > 0 ? std::clamp<std::int64_t>(i, 0, count)
                    : std::clamp<std::int64_t>(i, -1, count - 1);
    };
    const std::int64_t first = place(number(1), by > 0 ? 0 : count - 1);
    const std::int64_t last = place(number(2), by > 0 ? count : -1);
    List cut;
    for (std::int64_t i = first; by > 0 ? i < last : i > last; i += by) {
      cut.push_back(items[static_cast<std::size_t>(i)]);
      if (by > count || by < -count) break;
    }
    if (of.list()) return cut;
    std::string text;
    for (const Value& c : cut) text += *c.text();
    return text;
  }

  Value call_of(const Expression& e) {
    const Expression& callee = *e.parts[0];
    if (callee.kind == ExpressionKind::attribute) {
      const Value object = value(*callee.parts[0]);
      const Arguments given = arguments(e.arguments);
      const Value held = object.name_space() ? attribute(object, callee.word) : Value();
      return held.function() ? (*held.function())(given) : called(object, callee.word, given);
    }
    const Value function = value(callee);
    if (!function.function()) {
      if (function.is_undefined())
        not_understood(e.line, fmt::format("the function {}", quote(function.undefined_name())));
      refuse_line(e.line, fmt::format("{} is called", function.type_name()));
    }
    return (*function.function())(arguments(e.arguments));
  }

  Value filter(const Expression& e) {
    const Value of = value(*e.parts[0]);
    const Arguments given = arguments(e.arguments);
    Value made = filtered(e.word, of, given);
    if (made.text() && made.text()->size() > kMostText)
      throw Error(ErrorCode::out_of_range, "the text is too long");
    return made;
  }

  Value unary(const Expression& e) {
    const Value of = value(*e.parts[0]);
    if (e.word == "not") return !of.is_true();
    if (of.integer() && *of.integer() != std::numeric_limits<std::int64_t>::min())
      return e.word == "-" ? -*of.integer() : *of.integer();
    if (of.real()) return e.word == "-" ? -*of.real() : *of.real();
    refuse_line(e.line, fmt::format("'{}' before {}", e.word, of.type_name()));
  }

  Value compared(const Expression& e) {
    Value left = value(*e.parts[0]);
    for (std::size_t i = 0; i < e.words.size(); ++i) {
      Value right = value(*e.parts[i + 1]);
      if (!holds(e.words[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  Value binary(const Expression& e) {
    Value left = value(*e.parts[0]);
    if (e.word == "and") return left.is_true() ? value(*e.parts[1]) : left;
    if (e.word == "or") return left.is_true() ? left : value(*e.parts[1]);
    const Value right = value(*e.parts[1]);
    Value made = e.word == "~" ? Value(text_of(left) + text_of(right))
                               : computed(e.word, left, right, e.line);
    if (made.text() && made.text()->size() > kMostText)
      throw Error(ErrorCode::out_of_range, "the text is too long");
    return made;
  }

  Frame globals_;
  Frame* frame_;
  std::string out_;
  std::int64_t steps_ = 0;
  int calls_ = 0;
  bool raised_ = false;
};

}  // namespace

std::string evaluate(const Block& block, Dict variables) {
  return Evaluator(std::move(variables)).run(block);
}

}  // namespace tessera::chat
