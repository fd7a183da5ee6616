// The audit commands. They read the logs themselves, so they need no daemon and work on the logs of
// sandboxes that are gone.
#include <algorithm>
#include <deque>

#include "mvm/audit/log.h"
#include "mvm/audit/reader.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/sys/file.h"

#include "audit_logs.h"
#include "json_text.h"

namespace mvm::cli {

namespace {

constexpr uint64_t kDefaultLines = 20;
constexpr uint64_t kMaxLines = 100'000;

std::optional<std::string> named(const Arguments& arguments) {
  auto name = arguments.positional("NAME");
  return name ? std::optional(checked_name(arguments, *name)) : std::nullopt;
}

// What of a log is shown, and how.
class Shown {
 public:
  explicit Shown(const Arguments& arguments)
      : kinds_(arguments.values("kind")), json_(arguments.flag("json")) {}
  bool wants(const audit::Line& line) const {
    return kinds_.empty() || std::find(kinds_.begin(), kinds_.end(), line.kind) != kinds_.end();
  }
  std::string text(std::string_view text, const audit::Line& line) const {
    return json_ ? std::string(text) + "\n" : shown_record(line);
  }

 private:
  std::vector<std::string> kinds_;
  bool json_;
};

// Prints what comes behind what the reader has read, until the log is closed.
void follow(Context& context, audit::Reader& reader, bool closed,
            const std::function<std::string(const audit::Reader::Read&)>& text_of) {
  while (true) {
    while (const auto read = reader.next()) {
      closed = read->line.kind == "close";
      context.console.out(text_of(*read));
    }
    if (closed) return;
    reader.wait();
  }
}

}

int audit_show(Context& context, const Arguments& arguments) {
  const Shown shown(arguments);
  audit::for_each_record(context.paths.audit_log(find_audit_log(context.paths, named(arguments))),
                         [&](std::string_view text, const audit::Line& line) {
                           if (shown.wants(line)) context.console.out(shown.text(text, line));
                         });
  return kFine;
}

int audit_tail(Context& context, const Arguments& arguments) {
  uint64_t most = kDefaultLines;
  if (const auto text = arguments.value("lines")) {
    const auto number = parse_u64(*text);
    if (!number || *number > kMaxLines)
      throw UsageError(&arguments.command(), "--lines must be 0 to " + std::to_string(kMaxLines));
    most = *number;
  }
  const Shown shown(arguments);
  audit::Reader reader(context.paths.audit_log(find_audit_log(context.paths, named(arguments))));
  std::deque<std::string> last;
  bool closed = false;
  while (const auto read = reader.next()) {
    closed = read->line.kind == "close";
    if (!shown.wants(read->line)) continue;
    last.push_back(shown.text(read->text, read->line));
    if (last.size() > most) last.pop_front();
  }
  for (const std::string& text : last) context.console.out(text);
  if (arguments.flag("follow"))
    follow(context, reader, closed, [&](const audit::Reader::Read& read) {
      return shown.wants(read.line) ? shown.text(read.text, read.line) : std::string();
    });
  return kFine;
}

int egress_log(Context& context, const std::string& sandbox, bool goes_on) {
  audit::Reader reader(context.paths.audit_log(find_audit_log(context.paths, sandbox)));
  const auto text_of = [](const audit::Reader::Read& read) {
    return is_egress(read.line) ? shown_record(read.line) : std::string();
  };
  bool closed = false;
  while (const auto read = reader.next()) {
    closed = read->line.kind == "close";
    context.console.out(text_of(*read));
  }
  if (goes_on) follow(context, reader, closed, text_of);
  return kFine;
}

int audit_export(Context& context, const Arguments& arguments) {
  if (arguments.flag("public-key")) {
    if (named(arguments))
      throw UsageError(&arguments.command(), "--public-key is of all logs; leave NAME out");
    context.console.out(
        crypto::public_key_pem(audit::read_public_key(context.paths.audit_public_key())));
    return kFine;
  }
  audit::for_each_record(context.paths.audit_log(find_audit_log(context.paths, named(arguments))),
                         [&](std::string_view text, const audit::Line&) {
                           context.console.out(std::string(text) + "\n");
                         });
  return kFine;
}

// ---- verify

static std::string shown_verdict(const Verified& checked) {
  const audit::Verdict& verdict = checked.verdict;
  std::string out = checked.name.empty() ? checked.log : checked.name + " (" + checked.log + ")";
  if (const auto& problem = verdict.problem) {
    out += ": BAD, " + std::string(audit::wrong_word(problem->wrong));
    if (!problem->file.empty())
      out += ", " + printable(problem->file, 300) + " line " + std::to_string(problem->line);
    if (problem->seq != 0) out += ", record " + std::to_string(problem->seq);
    return out + ": " + problem->what + "\n";
  }
  out += ": fine, " + std::to_string(verdict.records) + " records, " +
         std::to_string(verdict.signatures) + " signatures";
  if (!verdict.closed)
    out += ", not closed: the last " + std::to_string(verdict.unsigned_records) +
           " records have no signature yet";
  if (verdict.torn_bytes != 0)
    out += ", " + std::to_string(verdict.torn_bytes) +
           " bytes of records that were cut short, noted at that time";
  if (verdict.open_end != 0)
    out += ", " + std::to_string(verdict.open_end) + " bytes of a last record that is not whole";
  if (verdict.missed != 0)
    out += ", " + std::to_string(verdict.missed) + " events could not be recorded and were refused";
  return out + "\n";
}

int audit_verify(Context& context, const Arguments& arguments) {
  const auto file = arguments.value("file");
  if (file && named(arguments))
    throw UsageError(&arguments.command(), "--file and NAME contradict");
  const auto key_file = arguments.value("key");
  const auto key = audit::read_public_key(key_file ? context.absolute(*key_file)
                                                   : context.paths.audit_public_key());
  const auto logs = file ? std::vector{verify_audit_file(context.absolute(*file), key)}
                         : verify_audit_logs(context.paths, named(arguments), key);
  if (arguments.flag("json")) {
    context.console.out(json_verified(logs));
  } else {
    for (const Verified& each : logs) context.console.out(shown_verdict(each));
  }
  const bool fine =
      std::all_of(logs.begin(), logs.end(), [](const Verified& each) { return each.verdict.ok(); });
  return fine ? kFine : kNotWell;
}

// ---- why

namespace {

// Follows one run through a log: its beginning, its end, and what the network saw in between.
class RunStory {
 public:
  explicit RunStory(std::string run) : run_(std::move(run)) {}

  // Whether the record is part of it.
  bool take(const audit::Line& line) {
    const bool own = line.field("run_id") == run_;
    // A file of a new key: the sandbox was started, and nothing runs in it yet.
    if (line.kind == "open") active_ = 0;
    if (line.kind == "exec_started") {
      others_ += own ? active_ : running_ ? 1 : 0;
      running_ = running_ || own;
      ++active_;
    }
    if (line.kind == "exec_ended") active_ -= std::min<size_t>(active_, 1);
    const bool part = own || (running_ && is_egress(line));
    found_ = found_ || own;
    over_ = (own && line.kind == "exec_ended") || (running_ && line.kind == "close");
    return part;
  }
  bool found() const { return found_; }
  bool over() const { return over_; }
  size_t others() const { return others_; }  // that were under way meanwhile

 private:
  std::string run_;
  bool found_ = false;
  bool running_ = false;
  bool over_ = false;
  size_t active_ = 0;
  size_t others_ = 0;
};

}

int audit_why(Context& context, const Arguments& arguments) {
  const std::string run = *arguments.positional("RUN");
  if (audit::RunId(run).text() != run)
    throw UsageError(&arguments.command(), "'" + printable(run, 80) + "' is no id of a run");
  const Shown shown(arguments);
  for (const std::string& log : sys::list_directory(context.paths.audit_dir())) {
    if (!log.starts_with("sb-")) continue;
    RunStory story(run);
    audit::Reader reader(context.paths.audit_log(log));
    while (!story.over()) {
      const auto read = reader.next();
      if (!read) break;
      if (story.take(read->line)) context.console.out(shown.text(read->text, read->line));
    }
    if (!story.found()) continue;
    if (story.others() != 0)
      context.console.err("mvm: " + std::to_string(story.others()) +
                          " other run(s) of the sandbox were under way meanwhile; some of the "
                          "traffic may be theirs\n");
    return kFine;
  }
  throw Error(Kind::NotFound, "no audit log knows the run " + run);
}

}
