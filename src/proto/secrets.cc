#include "mvm/proto/secrets.h"

#include <string.h>  // explicit_bzero

#include "messages.h"

namespace mvm::proto {

static std::vector<std::string> read_texts(CborReader& in) {
  return read_texts(in, kMaxSecretWords, kMaxSecretText);
}

static Bytes encode_rule(const SecretRule& rule) {
  Bytes out;
  {
    MapWriter map(out);
    map.string("name", rule.name);
    map.string("from", rule.from);
    write_texts(map.field("hosts"), rule.hosts);
    write_texts(map.field("places"), rule.places);
    write_texts(map.field("headers"), rule.headers);
    map.string("prefix", rule.prefix);
    map.boolean("plaintext", rule.plaintext);
    map.string("on_misuse", rule.on_misuse);
    map.string("on_unreadable", rule.on_unreadable);
    map.boolean("require", rule.require);
  }
  return out;
}

static SecretRule read_rule(CborReader& in) {
  SecretRule rule;
  for (Fields field(in); field.next();) {
    if (field.is("name")) {
      rule.name = in.string(kMaxSecretText);
    } else if (field.is("from")) {
      rule.from = in.string(kMaxSecretText);
    } else if (field.is("hosts")) {
      rule.hosts = read_texts(in);
    } else if (field.is("places")) {
      rule.places = read_texts(in);
    } else if (field.is("headers")) {
      rule.headers = read_texts(in);
    } else if (field.is("prefix")) {
      rule.prefix = in.string(kMaxSecretText);
    } else if (field.is("plaintext")) {
      rule.plaintext = in.boolean();
    } else if (field.is("on_misuse")) {
      rule.on_misuse = in.string(kMaxSecretText);
    } else if (field.is("on_unreadable")) {
      rule.on_unreadable = in.string(kMaxSecretText);
    } else if (field.is("require")) {
      rule.require = in.boolean();
    } else {
      field.skip();
    }
  }
  return rule;
}

void wipe(SecretValues& values) noexcept {
  for (auto& [name, value] : values) ::explicit_bzero(value.data(), value.size());
  values.clear();
}

Bytes SecretsConfig::encode() const {
  Bytes out;
  // Grown step by step, it would leave copies behind.
  out.reserve(kMaxSecretsMessage);
  {
    MapWriter map(out);
    CborWriter list = map.field("rules");
    list.array(rules.size());
    for (const SecretRule& rule : rules) list.raw(encode_rule(rule));
    CborWriter table = map.field("values");
    table.map(values.size());
    for (const auto& [name, value] : values) {
      table.string(name);
      table.string(value);
    }
  }
  return out;
}

std::optional<SecretsConfig> SecretsConfig::decode(ByteView data) {
  SecretsConfig config;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("rules")) {
      const size_t count = in.array(kMaxSecrets);
      for (size_t i = 0; i < count && in; ++i) config.rules.push_back(read_rule(in));
    } else if (field.is("values")) {
      const size_t count = in.map(kMaxSecrets);
      for (size_t i = 0; i < count && in; ++i) {
        const std::string name(in.string(kMaxSecretText));
        config.values[name] = in.string(kMaxSecretValue);
      }
    } else {
      field.skip();
    }
  }
  if (in && in.at_end()) return config;
  wipe(config.values);
  return std::nullopt;
}

size_t encoded_size(const std::vector<SecretRule>& rules) {
  size_t size = 0;
  for (const SecretRule& rule : rules) size += encode_rule(rule).size();
  return size;
}

}
