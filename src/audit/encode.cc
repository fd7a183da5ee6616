// Records to lines.
#include <array>
#include <charconv>
#include <chrono>

#include "mvm/audit/record.h"
#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::audit {

namespace {

class Builder {
 public:
  Builder(const Position& at, Time time, std::string_view kind) : prev_(at.prev) {
    line_.reserve(512);
    line_ = "{\"v\":1";
    number("seq", at.seq);
    text("time", time_text(time));
    text("kind", kind);
  }
  void text(std::string_view key, std::string_view value) {
    line_.append(",\"").append(key).append("\":\"").append(value).append("\"");
  }
  void number(std::string_view key, uint64_t value) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    line_.append(",\"").append(key).append("\":").append(digits.data(), end);
  }
  void text_if(std::string_view key, std::string_view value) {
    if (!value.empty()) text(key, value);
  }
  void number_if(std::string_view key, uint64_t value) {
    if (value != 0) number(key, value);
  }
  void head(const std::optional<Head>& log) {
    if (!log) return;
    number("log_seq", log->seq);
    text("log_hash", hex(log->hash));
  }
  std::string finish() {
    text("prev", hex(prev_));
    line_ += '}';
    MVM_ASSERT(line_.size() <= kMaxLine);
    return std::move(line_);
  }
  std::string finish(const crypto::SigningKey& key);

 private:
  std::string line_;
  crypto::Digest prev_;
};

}

// What a signature is of begins with its purpose, so that none can be taken for one of another.
static Bytes signed_bytes(std::string_view part) {
  constexpr std::string_view kPurpose = "mvm audit record 1\n";
  Bytes out;
  Writer writer(out);
  writer.text(kPurpose);
  writer.text(part);
  return out;
}

std::string Builder::finish(const crypto::SigningKey& key) {
  text("prev", hex(prev_));
  const crypto::Signature signature = key.sign(signed_bytes(line_));
  text("sig", hex(signature));
  line_ += '}';
  MVM_ASSERT(line_.size() <= kMaxLine);
  return std::move(line_);
}

bool is_signed_by(const Line& line, const crypto::PublicKey& key) {
  return line.signature && crypto::verify(key, signed_bytes(line.signed_part), *line.signature);
}

// By the calendar's own rules: gmtime_r(3) reads /etc/localtime first, which a jailed process
// cannot.
std::string time_text(Time time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss<microseconds> clock(floor<microseconds>(time - day));
  std::string text = "0000-00-00T00:00:00.000000Z";
  const auto put = [&text](size_t end, size_t width, int64_t value) {
    for (; width > 0; --width, value /= 10) text[--end] = static_cast<char>('0' + value % 10);
  };
  put(4, 4, static_cast<int>(date.year()));
  put(7, 2, static_cast<unsigned>(date.month()));
  put(10, 2, static_cast<unsigned>(date.day()));
  put(13, 2, clock.hours().count());
  put(16, 2, clock.minutes().count());
  put(19, 2, clock.seconds().count());
  put(26, 6, clock.subseconds().count());
  return text;
}

std::string_view outcome_word(policy::Outcome outcome) {
  switch (outcome) {
    case policy::Outcome::Allow:
      return "allow";
    case policy::Outcome::Deny:
      return "deny";
    case policy::Outcome::Ask:
      return "ask";
  }
  return "deny";
}

static std::string_view kind_word(Egress::Kind kind) {
  switch (kind) {
    case Egress::Kind::Dns:
      return "dns";
    case Egress::Kind::Connect:
      return "connect";
    case Egress::Kind::Tls:
      return "tls";
    case Egress::Kind::Http:
      return "http";
    case Egress::Kind::End:
      return "flow_ended";
  }
  return "connect";
}

// ---- one overload a kind: its word, and its fields

static std::string_view word(const SandboxCreated&) { return "created"; }
static void put(Builder& out, const SandboxCreated& event, const Detail&) {
  out.text("sandbox_id", event.sandbox.text());
  out.text("name", event.name.text());
  out.text("image", event.image.text());
  out.text("digest", event.digest.text());
}

static std::string_view word(const SandboxStarted&) { return "started"; }
static void put(Builder& out, const SandboxStarted& event, const Detail&) {
  out.text("sandbox_id", event.sandbox.text());
  out.text("name", event.name.text());
}

static std::string_view word(const SandboxEnded&) { return "ended"; }
static void put(Builder& out, const SandboxEnded& event, const Detail&) {
  out.text("sandbox_id", event.sandbox.text());
  out.text("name", event.name.text());
  out.text("reason", proto::end_reason_name(event.reason));
  out.head(event.log);
}

static std::string_view word(const SandboxRemoved&) { return "removed"; }
static void put(Builder& out, const SandboxRemoved& event, const Detail&) {
  out.text("sandbox_id", event.sandbox.text());
  out.text("name", event.name.text());
}

static std::string_view word(const ImageImported&) { return "image_imported"; }
static void put(Builder& out, const ImageImported& event, const Detail&) {
  out.text("name", event.name.text());
  out.text("digest", event.digest.text());
}

static std::string_view word(const ImageRemoved&) { return "image_removed"; }
static void put(Builder& out, const ImageRemoved& event, const Detail&) {
  out.text("name", event.name.text());
}

static std::string_view word(const LogExpired&) { return "log_expired"; }
static void put(Builder& out, const LogExpired& event, const Detail&) {
  out.text("sandbox_id", event.sandbox.text());
  out.head(event.log);
}

static std::string_view word(const DaemonStarted&) { return "daemon_started"; }
static void put(Builder&, const DaemonStarted&, const Detail&) {}

static std::string_view word(const PortPublished&) { return "port_published"; }
static void put(Builder& out, const PortPublished& event, const Detail&) {
  out.text("sandbox_id", event.sandbox.text());
  out.text("name", event.name.text());
  out.text("address", event.address.text());
  out.number("port", event.port);
  out.number("guest_port", event.guest_port);
}

static std::string_view word(const PortWithdrawn&) { return "port_withdrawn"; }
static void put(Builder& out, const PortWithdrawn& event, const Detail&) {
  out.text("sandbox_id", event.sandbox.text());
  out.text("name", event.name.text());
  out.text("address", event.address.text());
  out.number("port", event.port);
}

static std::string_view word(const ExecStarted&) { return "exec_started"; }
static void put(Builder& out, const ExecStarted& event, const Detail&) {
  out.text("run_id", event.run.text());
}

static std::string_view word(const ExecEnded&) { return "exec_ended"; }
static void put(Builder& out, const ExecEnded& event, const Detail&) {
  out.text("run_id", event.run.text());
  if (event.exit_code) out.number("exit_code", *event.exit_code);
  if (event.signal) out.number("signal", *event.signal);
  if (event.timed_out) out.number("timed_out", 1);
}

// The text of an endpoint is a rule's id where its author gave none.
static std::string_view rule_text(const RuleId& rule, const Detail& detail) {
  const std::string_view text = rule.text();
  const size_t scheme = text.find("://");
  if (detail.paths || scheme == text.npos) return text;
  return text.substr(0, text.find('/', scheme + 3));
}

static std::string_view word(const Egress& event) { return kind_word(event.kind); }
static void put(Builder& out, const Egress& event, const Detail& detail) {
  out.number_if("flow", event.flow);
  out.text_if("host", event.host.text());
  if (event.address) out.text("address", event.address->text());
  out.number_if("port", event.port);
  if (event.kind != Egress::Kind::Dns && event.transport)
    out.text("transport", *event.transport == Egress::Transport::Udp ? "udp" : "tcp");
  out.text_if("method", event.method.text());
  if (detail.paths) {
    out.text_if("path", event.path.text());
    out.number_if("path_length", event.path.cut_from());
  }
  out.text("outcome", outcome_word(event.outcome));
  out.text("reason", policy::reason_word(event.reason));
  if (event.audited) out.number("audited", 1);
  out.text_if("rule", rule_text(event.rule, detail));
  if (event.count != 1) out.number("count", event.count);
  if (event.kind != Egress::Kind::End) return;
  out.number("sent", event.sent);
  out.number("received", event.received);
}

static std::string_view word(const PolicyChanged&) { return "policy_changed"; }
static void put(Builder& out, const PolicyChanged& event, const Detail& detail) {
  out.text("outcome", outcome_word(event.outcome));
  out.text_if("rule", rule_text(event.rule, detail));
}

static std::string_view word(const QuestionAnswered&) { return "answered"; }
static void put(Builder& out, const QuestionAnswered& event, const Detail&) {
  out.text("outcome", outcome_word(event.outcome));
  out.number("question", event.question);
  out.text("scope", event.session ? "session" : "once");
}

// Events of the daemon's log name the sandbox that they are of themselves.
template <typename T>
static constexpr bool kOfSandbox =
    std::is_same_v<T, Egress> || std::is_same_v<T, ExecStarted> || std::is_same_v<T, ExecEnded> ||
    std::is_same_v<T, PolicyChanged> || std::is_same_v<T, QuestionAnswered> ||
    std::is_same_v<T, SecretUse> || std::is_same_v<T, PiiUse> || std::is_same_v<T, AiUse>;

static std::string_view word(const SecretUse& event) {
  switch (event.kind) {
    case SecretUse::Kind::Used:
      return "secret_used";
    case SecretUse::Kind::Inert:
      return "secret_inert";
    case SecretUse::Kind::Misused:
      return "secret_misused";
    case SecretUse::Kind::Leaked:
      return "secret_leaked";
    case SecretUse::Kind::Masked:
      return "secret_masked";
    case SecretUse::Kind::Unreadable:
      break;
  }
  return "secret_unreadable";
}
static void put(Builder& out, const SecretUse& event, const Detail&) {
  out.number_if("flow", event.flow);
  out.text_if("host", event.host.text());
  out.number_if("port", event.port);
  out.text("secret", event.secret.text());
  if (event.count != 1) out.number("count", event.count);
}

static std::string_view word(const PiiUse& event) {
  switch (event.kind) {
    case PiiUse::Kind::Detected:
      return "pii_detected";
    case PiiUse::Kind::Tokenized:
      return "pii_tokenized";
    case PiiUse::Kind::Redacted:
      return "pii_redacted";
    case PiiUse::Kind::Denied:
      return "pii_denied";
    case PiiUse::Kind::Restored:
      return "pii_restored";
    case PiiUse::Kind::Mismatched:
      return "pii_mismatched";
    case PiiUse::Kind::Undecodable:
      break;
  }
  return "pii_undecodable";
}
static void put(Builder& out, const PiiUse& event, const Detail&) {
  out.number_if("flow", event.flow);
  out.text_if("host", event.host.text());
  out.number_if("port", event.port);
  out.text_if("data", event.data.text());
  out.text_if("change", event.change.text());
  out.text_if("place", event.place.text());
  if (event.count != 1) out.number("count", event.count);
}

static std::string_view told_word(AiUse::Told told) {
  switch (told) {
    case AiUse::Told::Reported:
      return "reported";
    case AiUse::Told::Unknown:
      return "unknown";
    case AiUse::Told::Nothing:
      break;
  }
  return "none";
}

static std::string_view word(const AiUse&) { return "ai_usage"; }
static void put(Builder& out, const AiUse& event, const Detail&) {
  out.number_if("flow", event.flow);
  out.text_if("host", event.host.text());
  out.number_if("port", event.port);
  out.text("provider", event.provider.text());
  out.text_if("model", event.model.text());
  out.text("usage", told_word(event.told));
  if (event.told == AiUse::Told::Nothing) return;
  out.number("input_tokens", event.input);
  out.number("output_tokens", event.output);
  out.number("total_tokens", event.total);
  out.number_if("cached_tokens", event.cached);
  out.number_if("reasoning_tokens", event.reasoning);
  out.number_if("estimated_tokens", event.estimated);
}

std::string encode(const Position& at, Time time, const LogId& sandbox, const Event& event,
                   const Detail& detail) {
  return std::visit(
      [&](const auto& each) {
        Builder out(at, time, word(each));
        if constexpr (kOfSandbox<std::decay_t<decltype(each)>>)
          out.text("sandbox_id", sandbox.text());
        put(out, each, detail);
        return out.finish();
      },
      event);
}

static std::string_view word(const FileOpened& record) { return record.key ? "open" : "continue"; }
static void put(Builder& out, const FileOpened& record) {
  out.text("log", record.log.text());
  out.number("file", record.file);
  if (record.key) out.text("key", hex(*record.key));
  if (record.torn.bytes != 0) {
    out.number("torn_bytes", record.torn.bytes);
    out.text("torn_sha256", hex(record.torn.hash));
  }
  out.number_if("missed", record.missed);
}
static std::string_view word(const Checkpoint&) { return "checkpoint"; }
static void put(Builder& out, const Checkpoint& record) { out.number_if("missed", record.missed); }
static std::string_view word(const LogClosed&) { return "close"; }
static void put(Builder& out, const LogClosed& record) { out.number_if("missed", record.missed); }

std::string encode(const Position& at, Time time, const LogRecord& record,
                   const crypto::SigningKey& key) {
  return std::visit(
      [&](const auto& each) {
        Builder out(at, time, word(each));
        put(out, each);
        return out.finish(key);
      },
      record);
}

}
