// The loop of one command, against a sandbox that the test plays: frames are scripted, this
// process's standard streams are files and pipes of the test.

#include "mvm/cli/exec_session.h"

#include <array>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/proto/control.h"
#include "mvm/proto/credit.h"
#include "mvm/proto/policy.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::cli {
namespace {

using proto::FrameType;
using testing::HasSubstr;

// The other end of the control socket.
class Peer {
 public:
  explicit Peer(sys::Fd socket) : socket_(std::move(socket)) {}

  struct Received {
    uint32_t stream = 0;
    FrameType type = FrameType::Hello;
    Bytes payload;
  };
  // The next frame; fails the test when the connection ends first.
  Received next() {
    while (true) {
      if (const auto frame = decoder_.next())
        return {frame->stream, frame->type, Bytes(frame->payload.begin(), frame->payload.end())};
      const auto space = decoder_.space();
      const auto length = sys::read_some(socket_.get(), space);
      if (!length || *length == 0) throw std::runtime_error("the client hung up");
      decoder_.commit(*length);
    }
  }
  // Skips to the next of this type.
  Received next(FrameType type) {
    while (true)
      if (Received frame = next(); frame.type == type) return frame;
  }
  void send(uint32_t stream, FrameType type, ByteView payload = {}) {
    Bytes out;
    proto::append_frame(out, stream, type, payload);
    sys::write_all(socket_.get(), out);
  }
  // Greets and returns what the client asks to run.
  proto::ExecRequest greet() {
    proto::Hello hello;
    hello.role = "sandbox";
    send(proto::kConnectionStream, FrameType::Hello, hello.encode());
    EXPECT_EQ(next().type, FrameType::Hello);
    while (true) {
      const Received request = next(FrameType::Request);
      stream_ = request.stream;
      if (const auto exec = proto::ExecRequest::decode(request.payload)) return *exec;
      proto::SandboxStatus status;
      status.id = "sb-abc";
      status.name = "web";
      status.state = "running";
      status.network_missing = network_missing;
      send(request.stream, FrameType::End, proto::encode_ok(status.encode()));
    }
  }
  // Greets a client that wants to hear of questions; returns what it asks for first.
  proto::QuestionsRequest greet_asked() {
    send(proto::kConnectionStream, FrameType::Hello, proto::Hello{}.encode());
    EXPECT_EQ(next().type, FrameType::Hello);
    const auto first = questions();
    stream_ = next(FrameType::Request).stream;
    return first;
  }
  // The next request is one for questions.
  proto::QuestionsRequest questions() {
    const Received request = next(FrameType::Request);
    EXPECT_EQ(proto::request_verb(request.payload), proto::kSandboxQuestionsVerb);
    question_stream_ = request.stream;
    return proto::QuestionsRequest::decode(request.payload).value();
  }
  void ask(const proto::QuestionList& list) {
    send(question_stream_, FrameType::End, proto::encode_ok(list.encode()));
  }
  void out(std::string_view text) { send(stream_, FrameType::Stdout, as_bytes(text)); }
  void err(std::string_view text) { send(stream_, FrameType::Stderr, as_bytes(text)); }
  void end(const proto::ExecResult& result) {
    send(stream_, FrameType::End, proto::encode_ok(result.encode()));
  }
  void end_sandbox(proto::EndReason reason) {
    send(stream_, FrameType::End,
         proto::encode_error({Kind::Unavailable, "the sandbox has ended", reason}));
  }
  void fail(Kind kind, std::string message) {
    send(stream_, FrameType::End, proto::encode_error({kind, std::move(message)}));
  }
  uint32_t stream() const { return stream_; }
  void hang_up() { socket_.reset(); }
  std::string network_missing;

 private:
  sys::Fd socket_;
  proto::FrameDecoder decoder_;
  uint32_t stream_ = 0;
  uint32_t question_stream_ = 0;
};

class ExecSession : public testing::Test {
 protected:
  ExecSession() {
    ::signal(SIGPIPE, SIG_IGN);
    // The session takes signals as data in its own thread; the peer's must not take them first.
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) ::sigaddset(&set, number);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  }

  // Runs the session here and the sandbox's side in a thread of its own.
  template <typename Script>
  int run(Script script) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    std::thread peer([&script, socket = std::move(theirs)]() mutable {
      Peer sandbox(std::move(socket));
      try {
        script(sandbox);
      } catch (const std::exception&) {
        // The client was done first; what it made of that is what the test looks at.
      }
    });
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Console console(STDOUT_FILENO, STDERR_FILENO, {});
    int code = -1;
    failure.clear();
    try {
      code = run_session(console, std::move(ours), plan);
    } catch (const SandboxEnded& error) {
      failure = error.message();
      code = exit_code_of(error.reason());
    } catch (const Error& error) {
      failure = error.message();
    }
    peer.join();
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    return code;
  }

  ExecPlan plan = [] {
    ExecPlan made;
    made.request.argv = {"true"};
    made.sandbox = "web";
    return made;
  }();
  std::string out;
  std::string err;
  std::string failure;
};

// Puts `fd` in the place of standard input for a scope.
class StandardInput {
 public:
  explicit StandardInput(int fd) : before_(::dup(STDIN_FILENO)) { ::dup2(fd, STDIN_FILENO); }
  ~StandardInput() {
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }

 private:
  int before_;
};

TEST_F(ExecSession, SandboxThatEndsFirstGivesTheCodeOfItsReason) {
  using proto::EndReason;
  const std::vector<std::pair<EndReason, int>> codes = {
      {EndReason::TimeLimit, 124}, {EndReason::IdleTimeout, 124}, {EndReason::OutOfMemory, 137},
      {EndReason::Killed, 137},    {EndReason::Panic, 125},       {EndReason::Exited, 125}};
  for (const auto& [reason, code] : codes) {
    EXPECT_EQ(run([reason = reason](Peer& sandbox) {
                sandbox.greet();
                sandbox.end_sandbox(reason);
              }),
              code);
    EXPECT_EQ(failure, "the sandbox has ended");
  }
}

TEST_F(ExecSession, JsonTellsThatTheSandboxEndedFirst) {
  plan.json = true;
  plan.keep = 100;
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.out("so far");
              sandbox.end_sandbox(proto::EndReason::TimeLimit);
            }),
            124);
  EXPECT_THAT(out, HasSubstr(R"("sandbox_end":"time_limit")"));
  EXPECT_THAT(out, HasSubstr(R"("stdout":"so far")"));
}

TEST_F(ExecSession, KeepsTheStreamsApartAndGivesTheExitCode) {
  const int code = run([](Peer& sandbox) {
    EXPECT_EQ(sandbox.greet().argv, std::vector<std::string>{"true"});
    sandbox.out("out\n");
    sandbox.err("err\n");
    sandbox.end({.exit_code = 3});
  });
  EXPECT_EQ(code, 3);
  EXPECT_EQ(out, "out\n");
  EXPECT_EQ(err, "err\n");
}

TEST_F(ExecSession, SignalAndTimeOutHaveTheirCodes) {
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.end({.signal = SIGKILL});
            }),
            128 + SIGKILL);
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.out("kept\n");
              sandbox.end({.signal = SIGTERM, .timed_out = true});
            }),
            124);
  EXPECT_EQ(out, "kept\n");
  EXPECT_THAT(err, HasSubstr("ran out of time"));
}

TEST_F(ExecSession, WhatCannotRunIs126And127) {
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.fail(Kind::NotFound, "nope: command not found");
            }),
            127);
  EXPECT_EQ(err, "mvm: nope: command not found\n");
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.fail(Kind::Denied, "x: is not executable\x1b[31m");
            }),
            126);
  EXPECT_EQ(err, "mvm: x: is not executable\\x1b[31m\n");
  run([](Peer& sandbox) {
    sandbox.greet();
    sandbox.fail(Kind::Unavailable, "the sandbox rebooted");
  });
  EXPECT_EQ(failure, "the sandbox rebooted");
}

TEST_F(ExecSession, OutputBeyondTheWindowFlowsAsItIsWritten) {
  constexpr size_t kTotal = 4 * proto::kInitialWindow;
  run([](Peer& sandbox) {
    sandbox.greet();
    size_t credit = proto::kInitialWindow;
    for (size_t sent = 0; sent < kTotal;) {
      if (credit < 8192) {
        credit += *proto::decode_window(sandbox.next(FrameType::Window).payload);
        continue;
      }
      sandbox.out(std::string(8192, 'x'));
      sent += 8192;
      credit -= 8192;
    }
    sandbox.end({});
  });
  EXPECT_EQ(out.size(), kTotal);
}

TEST_F(ExecSession, RedactsWhatItPrints) {
  plan.request.redact = true;
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.out("to jane.d");
              sandbox.out("oe@example.com, ");
              sandbox.err("card 4111 1111 1111 1111\n");
              sandbox.out("or");
              sandbox.end({.exit_code = 3});
            }),
            3);
  EXPECT_EQ(out, "to [redacted], or");
  EXPECT_EQ(err, "card [redacted]\n");
}

// Credit is given for what came in, however much shorter it goes out.
TEST_F(ExecSession, RedactedOutputBeyondTheWindowFlows) {
  constexpr size_t kTotal = 4 * proto::kInitialWindow;
  plan.request.redact = true;
  std::string piece;
  for (int i = 0; i < 200; ++i) piece += "jane.doe@example.com or 12345678\n";
  run([&](Peer& sandbox) {
    sandbox.greet();
    size_t credit = proto::kInitialWindow;
    for (size_t sent = 0; sent < kTotal;) {
      if (credit < piece.size()) {
        credit += *proto::decode_window(sandbox.next(FrameType::Window).payload);
        continue;
      }
      sandbox.out(piece);
      sent += piece.size();
      credit -= piece.size();
    }
    sandbox.end({});
  });
  EXPECT_GT(out.size(), kTotal / 2);
  EXPECT_EQ(out.find("jane"), std::string::npos);
}

TEST_F(ExecSession, StandardInputIsReadOnlyWhenAskedFor) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const sys::Fd read_end(ends[0]), write_end(ends[1]);
  sys::write_all(write_end.get(), as_bytes("unread"));
  const StandardInput input(read_end.get());
  // The writer stays open all the time: the end of the command ends the call.
  EXPECT_EQ(run([](Peer& sandbox) {
              EXPECT_FALSE(sandbox.greet().stdin_open);
              sandbox.end({});
            }),
            0);
  plan.request.stdin_open = true;
  std::string seen;
  EXPECT_EQ(run([&seen](Peer& sandbox) {
              EXPECT_TRUE(sandbox.greet().stdin_open);
              const auto data = sandbox.next(FrameType::Data);
              seen = as_text(data.payload);
              sandbox.end({});
            }),
            0);
  EXPECT_EQ(seen, "unread");
}

TEST_F(ExecSession, EndOfStandardInputIsTold) {
  const sys::Fd nothing = sys::open_file("/dev/null", O_RDONLY);
  const StandardInput input(nothing.get());
  plan.request.stdin_open = true;
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.next(FrameType::Eof);
              sandbox.end({.exit_code = 4});
            }),
            4);
}

TEST_F(ExecSession, InputWaitsForCredit) {
  const sys::Fd file = sys::memory_file("input", 3 * proto::kInitialWindow);
  const StandardInput input(file.get());
  plan.request.stdin_open = true;
  size_t before_credit = 0;
  size_t total = 0;
  run([&](Peer& sandbox) {
    sandbox.greet();
    while (before_credit < proto::kInitialWindow)
      before_credit += sandbox.next(FrameType::Data).payload.size();
    total = before_credit;
    Bytes window;
    proto::append_window(window, sandbox.stream(), proto::kInitialWindow);
    const ByteView credit = ByteView(window).subspan(proto::kFrameHeader);
    while (total < 3 * proto::kInitialWindow) {
      if (total % proto::kInitialWindow == 0)
        sandbox.send(sandbox.stream(), FrameType::Window, credit);
      total += sandbox.next(FrameType::Data).payload.size();
    }
    sandbox.send(sandbox.stream(), FrameType::Window, credit);  // the end is seen by reading on
    sandbox.next(FrameType::Eof);
    sandbox.end({});
  });
  EXPECT_EQ(before_credit, proto::kInitialWindow);
  EXPECT_EQ(total, 3 * proto::kInitialWindow);
}

TEST_F(ExecSession, FirstSignalIsForwardedSecondCancels) {
  const int code = run([](Peer& sandbox) {
    sandbox.greet();
    ::kill(::getpid(), SIGINT);
    EXPECT_EQ(proto::decode_signal(sandbox.next(FrameType::Signal).payload), SIGINT);
    ::kill(::getpid(), SIGTERM);
    sandbox.next(FrameType::Cancel);
    sandbox.end({.signal = SIGKILL});
  });
  EXPECT_EQ(code, 128 + SIGKILL);
}

TEST_F(ExecSession, ThirdSignalGivesUp) {
  run([](Peer& sandbox) {
    sandbox.greet();
    ::kill(::getpid(), SIGINT);
    sandbox.next(FrameType::Signal);
    ::kill(::getpid(), SIGINT);
    sandbox.next(FrameType::Cancel);
    ::kill(::getpid(), SIGINT);
    sandbox.next(FrameType::End);  // never comes: the client hangs up
  });
  EXPECT_THAT(failure, HasSubstr("interrupted"));
}

TEST_F(ExecSession, TerminalIsRawMeanwhileAndAsBeforeAfterwards) {
  int leader_fd = -1;
  int follower_fd = -1;
  winsize window{.ws_row = 33, .ws_col = 99, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(&leader_fd, &follower_fd, nullptr, nullptr, &window), 0);
  const sys::Fd leader(leader_fd), follower(follower_fd);
  const StandardInput input(follower.get());
  const auto mode = [&follower] {
    termios now{};
    EXPECT_EQ(::tcgetattr(follower.get(), &now), 0);
    return now.c_lflag;
  };
  const tcflag_t before = mode();
  ASSERT_NE(before & ICANON, 0U);
  plan.request.tty = true;
  plan.request.stdin_open = true;
  for (const bool fails : {false, true}) {
    run([&](Peer& sandbox) {
      EXPECT_EQ(sandbox.greet().size, (proto::TerminalSize{33, 99}));
      EXPECT_EQ(mode() & (ICANON | ECHO | ISIG), 0U);
      // Ctrl-C is a byte like any other.
      sys::write_all(leader.get(), as_bytes("\x03"));
      EXPECT_EQ(as_text(sandbox.next(FrameType::Data).payload), "\x03");
      window.ws_row = 44;
      EXPECT_EQ(::ioctl(leader.get(), TIOCSWINSZ, &window), 0);
      ::kill(::getpid(), SIGWINCH);
      EXPECT_EQ(proto::decode_resize(sandbox.next(FrameType::Resize).payload),
                (proto::TerminalSize{44, 99}));
      window.ws_row = 33;
      EXPECT_EQ(::ioctl(leader.get(), TIOCSWINSZ, &window), 0);
      fails ? sandbox.hang_up() : sandbox.end({});
    });
    EXPECT_EQ(mode(), before);
    EXPECT_EQ(failure.empty(), !fails);
  }
}

TEST_F(ExecSession, DetachedEndsWhenItHasStarted) {
  plan.request.detach = true;
  EXPECT_EQ(run([](Peer& sandbox) {
              EXPECT_TRUE(sandbox.greet().detach);
              sandbox.send(sandbox.stream(), FrameType::Event, proto::ExecStarted{7}.encode());
            }),
            0);
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.fail(Kind::NotFound, "nope: command not found");
            }),
            127);
}

TEST_F(ExecSession, JsonIsOneBoundedDocument) {
  plan.json = true;
  plan.keep = 5;
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.out("12345678");
              sandbox.err("\xff\n");
              sandbox.end({.exit_code = 4});
            }),
            4);
  EXPECT_THAT(out,
              testing::MatchesRegex(
                  "\\{\"sandbox\":\"web\",\"sandbox_id\":\"sb-abc\",\"exit_code\":4,"
                  "\"signal\":null,\"timed_out\":false,\"truncated\":true,\"out_of_memory\":false,"
                  "\"duration_ms\":[0-9"
                  "]+,\"stdout\":\"12345\",\"stdout_bytes\":8,\"stderr\":\"\xef\xbf\xbd\\\\n\","
                  "\"stderr_bytes\":2\\}\n"));
  EXPECT_EQ(err, "");
}

TEST_F(ExecSession, APeerThatSaysNothingIsGivenUpOn) {
  plan.greeting_limit = std::chrono::milliseconds(50);
  run([](Peer& sandbox) { sandbox.next(FrameType::End); });  // never comes: the client hangs up
  EXPECT_THAT(failure, HasSubstr("says nothing"));
  EXPECT_THAT(failure, HasSubstr("mvm logs web"));
}

// The limit is for the greeting: a command may take its time.
TEST_F(ExecSession, AQuietCommandIsNotGivenUpOn) {
  plan.greeting_limit = std::chrono::milliseconds(1000);
  const int code = run([this](Peer& sandbox) {
    sandbox.greet();
    std::this_thread::sleep_for(plan.greeting_limit * 5 / 4);
    sandbox.end({.exit_code = 4});
  });
  EXPECT_EQ(code, 4);
}

TEST_F(ExecSession, AHostilePeerIsOneClearError) {
  const auto failure_of = [this](auto script) {
    run(script);
    return failure;
  };
  EXPECT_THAT(failure_of([](Peer& sandbox) { sandbox.hang_up(); }), HasSubstr("closed the"));
  EXPECT_EQ(failure_of([](Peer& sandbox) { sandbox.out("no hello"); }),
            "the sandbox broke the protocol");
  EXPECT_THAT(failure_of([](Peer& sandbox) {
                proto::Hello hello;
                hello.version = proto::kProtocolVersion + 1;
                hello.role = "sandbox";
                sandbox.send(0, FrameType::Hello, hello.encode());
              }),
              HasSubstr("another version of mvm"));
  EXPECT_EQ(failure_of([](Peer& sandbox) {
              sandbox.greet();
              sandbox.send(77, FrameType::Stdout, as_bytes("x"));
            }),
            "the sandbox broke the protocol");
  EXPECT_EQ(failure_of([](Peer& sandbox) {
              sandbox.greet();
              sandbox.send(sandbox.stream(), FrameType::End, as_bytes("garbage"));
            }),
            "the sandbox broke the protocol");
  EXPECT_EQ(failure_of([](Peer& sandbox) {
              sandbox.greet();
              sandbox.send(sandbox.stream(), FrameType::Request);
            }),
            "the sandbox broke the protocol");
}

TEST_F(ExecSession, SaysThatTheSandboxHasNoNetwork) {
  plan.tell_network = true;
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.network_missing = "no \x1b[2J tun device";
              sandbox.greet();
              sandbox.end({});
            }),
            0);
  EXPECT_THAT(err, HasSubstr("mvm: web has no network: no \\x1b[2J tun device\n"));
  EXPECT_EQ(run([](Peer& sandbox) {
              sandbox.greet();
              sandbox.end({});
            }),
            0);
  EXPECT_EQ(err, "");
}

TEST_F(ExecSession, TellsEachQuestionAndAsksForTheNext) {
  plan.tell_questions = true;
  const auto question = [](const std::string& id) {
    return proto::Question{id, "a.example", 443, "", "", "people", 1, 30'000};
  };
  EXPECT_EQ(run([&](Peer& sandbox) {
              EXPECT_EQ(sandbox.greet_asked().beyond, 0U);
              sandbox.ask({{question("1001")}, 1001});
              EXPECT_EQ(sandbox.questions().beyond, 1001U);
              sandbox.ask({{question("1001"), question("1002")}, 1002});
              EXPECT_EQ(sandbox.questions().beyond, 1002U);
              sandbox.end({});
            }),
            0);
  EXPECT_THAT(err, HasSubstr("mvm: web asks: connect to a.example:443 (rule 'people')\n"));
  EXPECT_EQ(err.find("approve web/1001"), err.rfind("approve web/1001"));
  EXPECT_THAT(err,
              HasSubstr("30s to answer: mvm policy approve web/1002, mvm policy deny web/1002"));
}

// One of another version knows no questions.
TEST_F(ExecSession, GoesOnWithASandboxThatAsksNothing) {
  plan.tell_questions = true;
  EXPECT_EQ(run([&](Peer& sandbox) {
              sandbox.greet();  // answers everything with a status
              sandbox.end({});
            }),
            0);
  EXPECT_EQ(err, "");
}

}
}
