#include "audit_logs.h"

#include <fcntl.h>

#include "mvm/audit/log.h"
#include "mvm/audit/reader.h"
#include "mvm/base/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::cli {

namespace {

const std::string kDaemon(audit::kDaemonLog);

// What the daemon's log says of one sandbox.
struct Known {
  std::string name;
  std::optional<audit::Head> end;
  bool expired = false;
};
struct Directory {
  std::map<std::string, Known> sandboxes;         // by id
  std::map<std::string, std::string> id_of_name;  // the last that had it
};

Directory read_directory(const store::Paths& paths) {
  Directory out;
  audit::for_each_record(paths.audit_log(kDaemon), [&](std::string_view, const audit::Line& line) {
    const std::string id(line.field("sandbox_id"));
    if (id.empty()) return;
    Known& known = out.sandboxes[id];
    if (line.kind == "created") {
      known.name = line.field("name");
      out.id_of_name[known.name] = id;
    }
    if (line.kind == "started") known.end.reset();  // its log goes on
    if (line.kind == "log_expired") known.expired = true;
    if (line.kind != "ended") return;
    if (const auto hash = audit::digest_from_hex(line.field("log_hash")))
      known.end = audit::Head{line.number("log_seq"), *hash};
  });
  return out;
}

std::string log_of(const Directory& directory, const std::string& name) {
  if (name == kDaemon || directory.sandboxes.contains(name)) return name;
  if (const auto found = directory.id_of_name.find(name); found != directory.id_of_name.end())
    return found->second;
  throw Error(Kind::NotFound, "the daemon's audit log knows no sandbox " + name);
}

Verified verify_one(const store::Paths& paths, const Directory& directory, const std::string& log,
                    const crypto::PublicKey& key) {
  Verified out{log, "", {}};
  std::optional<audit::Head> end;
  if (const auto found = directory.sandboxes.find(log); found != directory.sandboxes.end()) {
    out.name = found->second.name;
    end = found->second.end;
  }
  out.verdict = audit::verify_log(paths.audit_log(log), audit::LogId(log), key, end);
  return out;
}

}

std::string find_audit_log(const store::Paths& paths, const std::optional<std::string>& name) {
  const std::string log = name ? log_of(read_directory(paths), *name) : kDaemon;
  if (audit::file_numbers(paths.audit_log(log)).empty())
    throw Error(Kind::NotFound, log == kDaemon
                                    ? "there is no audit log yet: no daemon has run here"
                                    : "there is no audit log of " + *name +
                                          ": it never ran, or was removed more than 30 days ago");
  return log;
}

std::vector<Verified> verify_audit_logs(const store::Paths& paths,
                                        const std::optional<std::string>& name,
                                        const crypto::PublicKey& key) {
  const Directory directory = read_directory(paths);
  if (name) return {verify_one(paths, directory, find_audit_log(paths, name), key)};
  std::vector<Verified> out;
  out.push_back(verify_one(paths, directory, kDaemon, key));
  for (const auto& [id, known] : directory.sandboxes) {
    // One that never ran has no log; one that ended has, until it has been kept for its time.
    const bool there = !audit::file_numbers(paths.audit_log(id)).empty();
    if (there || (known.end && !known.expired))
      out.push_back(verify_one(paths, directory, id, key));
  }
  return out;
}

// The log's id stands in its first record.
static std::string log_in(const Bytes& beginning, const std::string& file) {
  const auto text = as_text(beginning);
  const auto line = audit::parse(text.substr(0, text.find('\n')));
  if (!line || line->kind != "open")
    throw Error(Kind::Invalid, file + " does not begin with the first record of an audit log");
  return std::string(line->field("log"));
}

Verified verify_audit_file(const std::string& file, const crypto::PublicKey& key) {
  const sys::Fd fd = sys::open_file(file, O_RDONLY);
  Bytes buffer(256 * 1024);
  size_t got = sys::pread_some(fd.get(), buffer, 0);
  const std::string log =
      log_in(Bytes(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(got)), file);
  audit::Verifier verifier(key, audit::LogId(log), audit::Verifier::Layout::Exported);
  verifier.begin_file(file, 1);
  for (uint64_t offset = 0; got != 0; got = sys::pread_some(fd.get(), buffer, offset)) {
    verifier.feed(ByteView(buffer).first(got));
    offset += got;
  }
  return {log, "", verifier.finish()};
}

// ---- a record for people

bool is_egress(const audit::Line& line) {
  return line.kind == "dns" || line.kind == "connect" || line.kind == "tls" ||
         line.kind == "http" || line.kind == "flow_ended" || line.kind.starts_with("secret_") ||
         line.kind.starts_with("pii_") || line.kind == "ai_usage";
}

static std::string padded(std::string_view text, size_t width) {
  std::string out(text);
  if (out.size() < width) out.resize(width, ' ');
  return out + " ";
}

// "api.example.com:443 (192.0.2.7)"
static std::string destination(const audit::Line& line) {
  const std::string host(line.field("host"));
  const std::string address(line.field("address"));
  const std::string port(line.field("port"));
  std::string out = !host.empty()                                        ? host
                    : address.find(':') != address.npos && !port.empty() ? "[" + address + "]"
                                                                         : address;
  if (!port.empty()) out += ":" + port;
  if (!host.empty() && !address.empty()) out += " (" + address + ")";
  return out.empty() ? "-" : out;
}

static std::string shown_egress(const audit::Line& line) {
  std::string out = line.kind == "flow_ended"     ? padded("ended", 6)
                    : line.number("audited") != 0 ? padded("audit", 6)
                                                  : padded(line.field("outcome"), 6);
  out += padded(line.kind == "flow_ended" ? "flow" : line.kind, 8);
  if (!line.field("method").empty()) out += std::string(line.field("method")) + " ";
  out += destination(line);
  if (line.field("transport") == "udp") out += " udp";
  if (!line.field("path").empty()) out += " " + std::string(line.field("path"));
  if (!line.field("path_length").empty()) out += "…";
  if (line.kind == "flow_ended")
    out += " sent " + std::string(line.field("sent")) + " received " +
           std::string(line.field("received"));
  if (line.field("reason") != "allowed") out += "  " + std::string(line.field("reason"));
  if (!line.field("rule").empty()) out += "  by " + std::string(line.field("rule"));
  if (!line.field("count").empty()) out += "  ×" + std::string(line.field("count"));
  return out;
}

// "secret used    GITHUB_TOKEN api.example.com:443"
static std::string shown_secret(const audit::Line& line) {
  constexpr std::string_view kKind = "secret_";
  std::string out = padded("secret", 6) + padded(line.kind.substr(kKind.size()), 8) +
                    std::string(line.field("secret")) + " " + destination(line);
  if (!line.field("count").empty()) out += "  ×" + std::string(line.field("count"));
  return out;
}

// "pii    tokenized email in body, api.example.com:443  ×2"
static std::string shown_pii(const audit::Line& line) {
  constexpr std::string_view kKind = "pii_";
  std::string out = padded("pii", 6) + std::string(line.kind.substr(kKind.size()));
  for (const std::string_view key : {"change", "data"})
    if (!line.field(key).empty()) out += " " + std::string(line.field(key));
  out += " in " + std::string(line.field("place")) + ", " + destination(line);
  if (!line.field("count").empty()) out += "  ×" + std::string(line.field("count"));
  return out;
}

// "ai     reported openai gpt-4o, api.openai.com:443  input 19 output 10 total 29"
static std::string shown_ai(const audit::Line& line) {
  std::string out =
      padded("ai", 6) + padded(line.field("usage"), 8) + std::string(line.field("provider"));
  if (!line.field("model").empty()) out += " " + std::string(line.field("model"));
  out += ", " + destination(line);
  constexpr std::string_view kTokens = "_tokens";
  std::string_view gap = "  ";
  for (const auto& [key, value] : line.fields) {
    if (!key.ends_with(kTokens)) continue;
    out += std::string(gap) + std::string(key.substr(0, key.size() - kTokens.size())) + " " +
           std::string(value);
    gap = " ";
  }
  return out;
}

std::string shown_record(const audit::Line& line) {
  std::string out(line.time.substr(0, 10));
  out += " " + std::string(line.time.substr(11, 12)) + "  ";
  if (line.kind.starts_with("secret_")) return out + shown_secret(line) + "\n";
  if (line.kind.starts_with("pii_")) return out + shown_pii(line) + "\n";
  if (line.kind == "ai_usage") return out + shown_ai(line) + "\n";
  if (is_egress(line)) return out + shown_egress(line) + "\n";
  out += line.kind;
  for (const auto& [key, value] : line.fields) {
    // Hashes and keys are for machines.
    if (key == "log_hash" || key == "key" || key == "torn_sha256") continue;
    out += " " + std::string(key) + "=" + std::string(value);
  }
  return out + "\n";
}

}
