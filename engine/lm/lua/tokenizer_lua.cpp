#include <fmt/format.h>

#include "core_lua.h"
#include "lm_lua.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/lm/module.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

using lm_lua::Tokenizer;

const lm::Tokens& tokens_self(lua_State* L) {
  return *lua_kit::check_object<Tokenizer>(L, 1, "tokenizer")->tokens;
}

const OptionTable& tokenizer_options() {
  static const OptionTable table{
      "ts.tokenizer",
      "Text to tokens and back, without a model's weights.",
      "tessera.Tokenizer",
      {{.name = "path",
        .type = OptionType::text,
        .doc = "Folder with tokenizer.json or tokenizer.model, one of these, or a GGUF file",
        .required = true}},
      "string"};
  return table;
}

const OptionTable& encode_options() {
  static const OptionTable table{"tokenizer:encode",
                                 "How a text becomes tokens.",
                                 "integer[]",
                                 {{.name = "special",
                                   .type = OptionType::boolean,
                                   .doc = "With what the tokenizer puts around a text: a first "
                                          "token, ...",
                                   .default_text = "true"}}};
  return table;
}

const OptionTable& decode_options() {
  static const OptionTable table{"tokenizer:decode",
                                 "How tokens become text.",
                                 "string",
                                 {{.name = "skip_special",
                                   .type = OptionType::boolean,
                                   .doc = "Without the tokens that end or begin a text",
                                   .default_text = "false"}}};
  return table;
}

int encode(lua_State* L) {
  const lm::Tokens& tokens = tokens_self(L);
  const std::string text = lua_kit::check_text(L, 2, "tokenizer:encode text");
  const lua_kit::Options options(L, 3, encode_options(), "tokenizer:encode");
  lm_lua::push_ids(L, tokens.encode(text, options.boolean("special")));
  return 1;
}

// The tokens' own checks would speak of tokens; a list of a script has items.
void check_ids(const lm::Tokens& tokens, const std::vector<std::int32_t>& ids,
               const std::string& path) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < tokens.vocab_size()) continue;
    refuse(ErrorCode::out_of_range, path, "token {} is {}; the tokenizer has tokens 0 to {}", i + 1,
           ids[i], tokens.vocab_size() - 1);
  }
}

int decode(lua_State* L) {
  const lm::Tokens& tokens = tokens_self(L);
  const auto ids = lm_lua::ids_argument(L, 2, "tokenizer:decode ids");
  check_ids(tokens, ids, "tokenizer:decode ids");
  const lua_kit::Options options(L, 3, decode_options(), "tokenizer:decode");
  lua_kit::push_text(L, tokens.decode(ids, options.boolean("skip_special")));
  return 1;
}

int token(lua_State* L) {
  const lm::Tokens& tokens = tokens_self(L);
  const auto id = static_cast<std::int32_t>(lua_kit::check_integer(
      L, 2, "tokenizer:token id", 0, static_cast<double>(tokens.vocab_size()) - 1));
  lua_kit::push_text(L, tokens.token(id));
  return 1;
}

std::string summary_of(const Tokenizer& t) {
  return fmt::format("tokenizer: {} tokens, from {}", t.tokens->vocab_size(), quote(t.path, 300));
}

}  // namespace

template <>
const lua_kit::ObjectType<Tokenizer>& lua_kit::object_type<Tokenizer>() {
  static const ObjectType<Tokenizer> type{
      .name = "tessera.Tokenizer",
      .doc = "Text to tokens, numbered from 0, and back.",
      .fields =
          {{"vocab_size", "integer", "How many tokens it has",
            [](lua_State* L, const Tokenizer& t) { push_integer(L, t.tokens->vocab_size()); }},
           {"bos_token_id", "integer?", "Begins a text",
            [](lua_State* L, const Tokenizer& t) { push_value(L, t.tokens->bos_token_id()); }},
           {"stop_token_ids", "integer[]", "End a text",
            [](lua_State* L, const Tokenizer& t) { push_value(L, t.tokens->stop_token_ids()); }},
           {"path", "string", "Where it came from",
            [](lua_State* L, const Tokenizer& t) { push_text(L, t.path); }}},
      .methods =
          {{"encode", guarded<encode>,
            "(text: string, options: tessera.options.tokenizer.encode?): integer[]",
            "The tokens of a text; special = false leaves out what begins one"},
           {"decode", guarded<decode>,
            "(ids: integer[], options: tessera.options.tokenizer.decode?): string",
            "The text of tokens; skip_special = true leaves out those that end or begin one"},
           {"token", guarded<token>, "(id: integer): string", "As its file spells it"}},
      .summary = summary_of};
  return type;
}

namespace lm_lua {

Tokenizer tokenizer_of(const LoadedModel& loaded) {
  const lm::Tokens& tokens = loaded.model->tokens();
  const ModelShape& shape = loaded.model->shape();
  if (tokens.vocab_size() > shape.vocab_size) {
    refuse(loaded.model->request().path,
           "the tokenizer has {} tokens and the model {}: it belongs to another model",
           tokens.vocab_size(), shape.vocab_size);
  }
  return {std::shared_ptr<const lm::Tokens>(loaded.model, &tokens), loaded.model->request().path};
}

int new_tokenizer(lua_State* L) {
  std::string path;
  if (lua_type(L, 1) == LUA_TSTRING) {
    path = lua_kit::check_text(L, 1, "ts.tokenizer");
  } else {
    path = lua_kit::Options(L, 1, tokenizer_options(), "ts.tokenizer").text("path");
  }
  lua_kit::push_object(
      L, std::make_shared<const Tokenizer>(Tokenizer{lm::module().load_tokens(path), path}));
  return 1;
}

int write_gguf_tokenizer(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "write_gguf_tokenizer path");
  const std::string folder = lua_kit::check_text(L, 2, "write_gguf_tokenizer folder");
  lua_pushboolean(L, lm::module().write_gguf_tokens(path, folder) ? 1 : 0);
  return 1;
}

void register_tokenizer(lua_State* L) {
  lua_kit::register_object<Tokenizer>(L);
  auto& reference = core_lua::environment(L).reference;
  reference.add_object<Tokenizer>();
  reference.add(tokenizer_options());
  reference.add(encode_options());
  reference.add(decode_options());
}

}  // namespace lm_lua
}  // namespace tessera
