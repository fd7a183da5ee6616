#include "mvm/proto/pii.h"

#include "messages.h"

namespace mvm::proto {

static std::vector<std::string> read_texts(CborReader& in) {
  return read_texts(in, kMaxPiiEntries, kMaxPiiText);
}

Bytes PiiConfig::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("mode", mode);
    write_texts(map.field("categories"), categories);
    write_texts(map.field("rules"), rules);
    write_texts(map.field("patterns"), patterns);
    write_texts(map.field("bypass"), bypass);
    map.string("on_mismatch", on_mismatch);
    map.string("on_undecodable", on_undecodable);
    map.unsigned_integer("token_lifetime", token_lifetime_ms);
    map.boolean("token_once", token_once);
    map.unsigned_integer("token_window", token_window_ms);
    map.unsigned_integer("max_value", max_value);
    map.unsigned_integer("max_growth", max_growth);
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
      config.rules = read_texts(in);
    } else if (field.is("patterns")) {
      config.patterns = read_texts(in);
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
    } else if (field.is("max_value")) {
      config.max_value = in.unsigned_integer(kMaxPiiValue);
    } else if (field.is("max_growth")) {
      config.max_growth = in.unsigned_integer(kMaxPiiGrowth);
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end()) return std::nullopt;
  return config;
}

}
