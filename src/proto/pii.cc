#include "mvm/proto/pii.h"

#include "mvm/proto/cbor.h"

namespace mvm::proto {

static void write_texts(CborWriter out, const std::vector<std::string>& texts) {
  out.array(texts.size());
  for (const std::string& text : texts) out.string(text);
}

static std::vector<std::string> read_texts(CborReader& in) {
  std::vector<std::string> texts;
  const size_t count = in.array(kMaxPiiWords);
  for (size_t i = 0; i < count && in; ++i) texts.emplace_back(in.string(kMaxPiiText));
  return texts;
}

static Bytes encode_rule(const PiiRule& rule) {
  Bytes out;
  {
    MapWriter map(out);
    map.string("id", rule.id);
    map.string("host", rule.host);
    write_texts(map.field("classes"), rule.classes);
    map.string("action", rule.action);
  }
  return out;
}

static PiiRule read_rule(CborReader& in) {
  PiiRule rule;
  for (Fields field(in); field.next();) {
    if (field.is("id")) {
      rule.id = in.string(kMaxPiiText);
    } else if (field.is("host")) {
      rule.host = in.string(kMaxPiiText);
    } else if (field.is("classes")) {
      rule.classes = read_texts(in);
    } else if (field.is("action")) {
      rule.action = in.string(kMaxPiiText);
    } else {
      field.skip();
    }
  }
  return rule;
}

static Bytes encode_pattern(const PiiPattern& pattern) {
  Bytes out;
  {
    MapWriter map(out);
    map.string("name", pattern.name);
    map.string("expression", pattern.expression);
    map.string("check", pattern.check);
  }
  return out;
}

static PiiPattern read_pattern(CborReader& in) {
  PiiPattern pattern;
  for (Fields field(in); field.next();) {
    if (field.is("name")) {
      pattern.name = in.string(kMaxPiiText);
    } else if (field.is("expression")) {
      pattern.expression = in.string(kMaxPiiText);
    } else if (field.is("check")) {
      pattern.check = in.string(kMaxPiiText);
    } else {
      field.skip();
    }
  }
  return pattern;
}

Bytes PiiConfig::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("mode", mode);
    write_texts(map.field("categories"), categories);
    CborWriter list = map.field("rules");
    list.array(rules.size());
    for (const PiiRule& rule : rules) list.raw(encode_rule(rule));
    list = map.field("patterns");
    list.array(patterns.size());
    for (const PiiPattern& pattern : patterns) list.raw(encode_pattern(pattern));
    write_texts(map.field("bypass"), bypass);
    map.string("on_mismatch", on_mismatch);
    map.string("on_undecodable", on_undecodable);
    map.unsigned_integer("token_lifetime", token_lifetime_ms);
    map.boolean("token_once", token_once);
    map.unsigned_integer("token_window", token_window_ms);
  }
  return out;
}

std::optional<PiiConfig> PiiConfig::decode(ByteView data) {
  PiiConfig config;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("mode")) {
      config.mode = in.string(kMaxPiiText);
    } else if (field.is("categories")) {
      config.categories = read_texts(in);
    } else if (field.is("rules")) {
      const size_t count = in.array(kMaxPiiRules);
      for (size_t i = 0; i < count && in; ++i) config.rules.push_back(read_rule(in));
    } else if (field.is("patterns")) {
      const size_t count = in.array(kMaxPiiWords);
      for (size_t i = 0; i < count && in; ++i) config.patterns.push_back(read_pattern(in));
    } else if (field.is("bypass")) {
      config.bypass = read_texts(in);
    } else if (field.is("on_mismatch")) {
      config.on_mismatch = in.string(kMaxPiiText);
    } else if (field.is("on_undecodable")) {
      config.on_undecodable = in.string(kMaxPiiText);
    } else if (field.is("token_lifetime")) {
      config.token_lifetime_ms = in.unsigned_integer(kMaxPiiTimeMs);
    } else if (field.is("token_once")) {
      config.token_once = in.boolean();
    } else if (field.is("token_window")) {
      config.token_window_ms = in.unsigned_integer(kMaxPiiTimeMs);
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end()) return std::nullopt;
  return config;
}

}
