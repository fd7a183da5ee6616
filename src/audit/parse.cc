// Lines to records. The grammar has one spelling for everything, so whatever is accepted here is
// what encode() would write.
#include <algorithm>
#include <array>

#include "mvm/audit/record.h"
#include "mvm/base/text.h"

namespace mvm::audit {

namespace {

enum class Type : uint8_t { Text, Number };
struct Key {
  std::string_view name;
  Type type;
};

// In the order in which they come in a line, whatever its kind.
constexpr std::array kKeys = std::to_array<Key>({
    {"sandbox_id", Type::Text},
    {"run_id", Type::Text},
    {"name", Type::Text},
    {"image", Type::Text},
    {"digest", Type::Text},
    {"log", Type::Text},
    {"file", Type::Number},
    {"key", Type::Text},
    {"torn_bytes", Type::Number},
    {"torn_sha256", Type::Text},
    {"missed", Type::Number},
    {"exit_code", Type::Number},
    {"signal", Type::Number},
    {"timed_out", Type::Number},
    {"flow", Type::Number},
    {"host", Type::Text},
    {"address", Type::Text},
    {"port", Type::Number},
    {"transport", Type::Text},
    {"method", Type::Text},
    {"path", Type::Text},
    {"path_length", Type::Number},
    {"outcome", Type::Text},
    {"reason", Type::Text},
    {"audited", Type::Number},
    {"rule", Type::Text},
    {"count", Type::Number},
    {"sent", Type::Number},
    {"received", Type::Number},
    {"log_seq", Type::Number},
    {"log_hash", Type::Text},
    {"question", Type::Number},
    {"scope", Type::Text},
    {"guest_port", Type::Number},
    {"secret", Type::Text},
    {"data", Type::Text},
    {"change", Type::Text},
    {"place", Type::Text},
    {"provider", Type::Text},
    {"model", Type::Text},
    {"usage", Type::Text},
    {"input_tokens", Type::Number},
    {"output_tokens", Type::Number},
    {"total_tokens", Type::Number},
    {"cached_tokens", Type::Number},
    {"reasoning_tokens", Type::Number},
    {"estimated_tokens", Type::Number},
});

class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}
  bool skip(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // A key with the comma before and the colon behind; empty when there is none.
  std::string_view key() {
    if (!skip(",\"")) return {};
    const size_t length = rest_.find('"');
    if (length == rest_.npos || length > 32) return {};
    const auto out = take(length);
    return skip("\":") ? out : std::string_view();
  }
  std::optional<std::string_view> text() {
    if (!skip("\"")) return std::nullopt;
    const size_t length =
        static_cast<size_t>(std::find_if_not(rest_.begin(), rest_.end(), is_plain) - rest_.begin());
    const auto out = take(length);
    if (out.empty() || !skip("\"")) return std::nullopt;
    return out;
  }
  // Without leading zeros, below 2^64.
  std::optional<std::string_view> number() {
    const size_t length =
        static_cast<size_t>(std::find_if_not(rest_.begin(), rest_.end(), is_digit) - rest_.begin());
    const auto out = take(length);
    if (!parse_u64(out) || (out.size() > 1 && out.front() == '0')) return std::nullopt;
    return out;
  }
  std::string_view rest() const { return rest_; }

 private:
  static bool is_plain(char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '\\'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  std::string_view take(size_t length) {
    const auto out = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return out;
  }
  std::string_view rest_;
};

template <size_t Size>
std::optional<std::array<std::byte, Size>> from_hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * Size) return std::nullopt;
  std::array<std::byte, Size> out{};
  for (size_t at = 0; at < Size; ++at) {
    const size_t high = kDigits.find(text[2 * at]);
    const size_t low = kDigits.find(text[2 * at + 1]);
    if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
    out[at] = static_cast<std::byte>(high << 4 | low);
  }
  return out;
}

// "2026-01-31T12:00:00.123456Z" by its form.
bool is_time(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd.ddddddZ";
  return text.size() == kForm.size() &&
         std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           return form == 'd' ? c >= '0' && c <= '9' : c == form;
         });
}

bool is_kind(std::string_view text) {
  static constexpr std::array kKinds = std::to_array<std::string_view>({"open",
                                                                        "continue",
                                                                        "checkpoint",
                                                                        "close",
                                                                        "created",
                                                                        "started",
                                                                        "ended",
                                                                        "removed",
                                                                        "image_imported",
                                                                        "image_removed",
                                                                        "log_expired",
                                                                        "daemon_started",
                                                                        "port_published",
                                                                        "port_withdrawn",
                                                                        "exec_started",
                                                                        "exec_ended",
                                                                        "policy_changed",
                                                                        "answered",
                                                                        "dns",
                                                                        "connect",
                                                                        "tls",
                                                                        "http",
                                                                        "flow_ended",
                                                                        "secret_used",
                                                                        "secret_inert",
                                                                        "secret_misused",
                                                                        "secret_leaked",
                                                                        "secret_masked",
                                                                        "secret_unreadable",
                                                                        "pii_detected",
                                                                        "pii_tokenized",
                                                                        "pii_redacted",
                                                                        "pii_denied",
                                                                        "pii_restored",
                                                                        "pii_mismatched",
                                                                        "pii_undecodable",
                                                                        "ai_usage"});
  return std::find(kKinds.begin(), kKinds.end(), text) != kKinds.end();
}

}

std::optional<crypto::Digest> digest_from_hex(std::string_view text) {
  return from_hex<sizeof(crypto::Digest)>(text);
}
std::optional<crypto::PublicKey> key_from_hex(std::string_view text) {
  return from_hex<sizeof(crypto::PublicKey)>(text);
}
crypto::Digest hash_of(std::string_view line) { return crypto::sha256(as_bytes(line)); }

std::string_view Line::field(std::string_view key) const {
  for (const auto& [name, value] : fields)
    if (name == key) return value;
  return {};
}

uint64_t Line::number(std::string_view key) const { return parse_u64(field(key)).value_or(0); }

// seq, time and kind, behind the version.
static bool read_envelope(Scanner& in, Line& line) {
  if (!in.skip(",\"seq\":")) return false;
  const auto seq = in.number();
  if (!seq || !in.skip(",\"time\":")) return false;
  line.seq = *parse_u64(*seq);
  const auto time = in.text();
  if (!time || !is_time(*time) || !in.skip(",\"kind\":")) return false;
  line.time = *time;
  const auto kind = in.text();
  if (!kind || !is_kind(*kind)) return false;
  line.kind = *kind;
  return true;
}

// Up to the key that is none of the kind's own, which is returned; empty when there is none.
static std::string_view read_fields(Scanner& in, Line& line) {
  // Each key at most once, so no more fields than keys.
  std::array<bool, kKeys.size()> seen{};
  while (true) {
    const std::string_view key = in.key();
    const auto known =
        std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& each) { return each.name == key; });
    if (known == kKeys.end()) return key;
    bool& before = seen.at(static_cast<size_t>(known - kKeys.begin()));
    const auto value = known->type == Type::Text ? in.text() : in.number();
    if (!value || std::exchange(before, true)) return {};
    line.fields.emplace_back(known->name, *value);
  }
}

std::optional<Line> parse(std::string_view text) {
  if (text.size() > kMaxLine) return std::nullopt;
  Scanner in(text);
  Line line;
  if (!in.skip("{\"v\":1") || !read_envelope(in, line)) return std::nullopt;
  if (read_fields(in, line) != "prev") return std::nullopt;
  const auto prev = digest_from_hex(in.text().value_or(""));
  if (!prev) return std::nullopt;
  line.prev = *prev;
  line.signed_part = text.substr(0, text.size() - in.rest().size());
  if (in.skip(",\"sig\":")) {
    line.signature = from_hex<sizeof(crypto::Signature)>(in.text().value_or(""));
    if (!line.signature) return std::nullopt;
  }
  if (!in.skip("}") || !in.rest().empty()) return std::nullopt;
  return line;
}

bool is_later_version(std::string_view text) {
  Scanner in(text);
  if (!in.skip("{\"v\":")) return false;
  const auto version = in.number();
  return version && *parse_u64(*version) > kVersion && in.skip(",");
}

}
