#pragma once
// Logs to test with, and a log's files as text to do things to.

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/audit/log.h"
#include "mvm/audit/verify.h"
#include "mvm/audit/writer.h"
#include "mvm/base/text.h"
#include "mvm/sys/file.h"

namespace mvm::audit {

inline crypto::SigningKey key_of(char letter) {
  crypto::SigningKey::Seed seed;
  seed.fill(static_cast<std::byte>(letter));
  return crypto::SigningKey(seed);
}

inline Event connect_to(std::string_view host, policy::Outcome outcome = policy::Outcome::Deny) {
  Egress egress;
  egress.flow = 7;
  egress.host = HostName(host);
  egress.address = IpAddress::parse("192.0.2.7");
  egress.port = 443;
  egress.outcome = outcome;
  egress.reason =
      outcome == policy::Outcome::Allow ? policy::Reason::Allowed : policy::Reason::PolicyDenied;
  return egress;
}

inline Writer::OnFailure no_failure() {
  return [](const std::optional<Failure>& failure) {
    ADD_FAILURE() << (failure ? failure->why : "works again");
  };
}

// A log of one writer with the daemon's key 'd' and its own 'k'.
inline Session session_in(const std::string& directory, char key = 'k') {
  return open_log(directory, LogId("sb-test"), key_of('d'), key_of(key));
}

inline void append(Writer& writer, const Event& event) {
  const Outcome outcome = writer.append(event);
  ASSERT_TRUE(outcome) << outcome.error().why;
}
inline void close(Writer& writer) {
  const Outcome outcome = writer.close();
  ASSERT_TRUE(outcome) << outcome.error().why;
}

struct File {
  uint64_t number;
  std::vector<std::string> lines;  // without their line feeds
  std::string tail;                // behind the last line feed
};
using Files = std::vector<File>;

inline Files read_files(const std::string& directory) {
  Files files;
  for (const uint64_t number : file_numbers(directory)) {
    File file{number, {}, {}};
    const std::string text =
        sys::read_text_file(directory + "/" + file_name(number), size_t{64} << 20);
    for (const std::string_view line : split(text, '\n')) file.lines.emplace_back(line);
    file.tail = file.lines.back();
    file.lines.pop_back();
    files.push_back(std::move(file));
  }
  return files;
}

inline std::string text_of(const File& file) {
  std::string text;
  for (const std::string& line : file.lines) text += line + "\n";
  return text + file.tail;
}

inline Verdict verify_files(const Files& files, std::optional<Head> known = std::nullopt,
                            size_t piece = 4096) {
  Verifier verifier(key_of('d').public_key(), LogId("sb-test"), Verifier::Layout::Files, known);
  for (const File& file : files) {
    verifier.begin_file(file_name(file.number), file.number);
    const std::string text = text_of(file);
    for (ByteView rest = as_bytes(text); !rest.empty();
         rest = rest.subspan(std::min(piece, rest.size())))
      verifier.feed(rest.first(std::min(piece, rest.size())));
  }
  return verifier.finish();
}

inline std::string told(const Verdict& verdict) {
  if (!verdict.problem) return "fine";
  return std::string(wrong_word(verdict.problem->wrong)) + " " + verdict.problem->file + ":" +
         std::to_string(verdict.problem->line) + " seq " + std::to_string(verdict.problem->seq) +
         " " + verdict.problem->what;
}

// ---- a disk that lets the writer down, in a process of its own

inline int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

inline void limit_files_to(uint64_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

inline std::vector<std::string> kinds_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const File& file : read_files(folder))
    for (const std::string& line : file.lines)
      if (const auto record = parse(line))
        out.push_back(std::string(record->kind) + " " + std::to_string(record->number("flow")));
  return out;
}

inline Event end_of(uint64_t flow) {
  Egress egress;
  egress.kind = Egress::Kind::End;
  egress.flow = flow;
  egress.reason = policy::Reason::Allowed;
  return egress;
}

}
