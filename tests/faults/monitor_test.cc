// What the monitor's loop does when the system lets it down: sockets of vsock streams, and of who
// sits at the console, while another one of its calls fails each time. A stream or a client may be
// lost by it, the machine not: the next one is served, and nothing is kept of the one before.
#include <csignal>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "../../src/monitor/console_client.h"
#include "../../src/monitor/console_log.h"
#include "../../src/monitor/host_streams.h"
#include "sample.h"
#include "seam.h"
#include "support/vsock_guest.h"

namespace mvm::faults {

using monitor::ConsoleClient;
using monitor::DeviceSlot;
using monitor::HostStreams;
using test::Packet;
using test::VsockGuest;
using virtio::VsockOp;

static Plan plan;

static void arm(int n, int error) {
  plan.victim = ::getpid();
  plan.error = error;
  plan.countdown = n;
}
// Whether it happened.
static bool disarm() { return plan.countdown.exchange(0) <= 0; }

// The calls of the test itself, which do not count.
template <typename Work>
static auto aside(Work work) {
  const int left = plan.countdown.exchange(0);
  auto result = work();
  plan.countdown = left;
  return result;
}
static std::string read_all(const sys::Fd& socket) {
  return aside([&] {
    std::string text(4096, '\0');
    const ssize_t got = ::recv(socket.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  });
}
static bool say(const sys::Fd& socket, std::string_view text) {
  return aside([&] {
    return ::send(socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
  });
}
static auto make_pair() {
  return aside([] { return sys::socket_pair(sys::SocketType::Stream); });
}

class MonitorFaults : public testing::TestWithParam<int> {
 protected:
  MonitorFaults() {
    ::signal(SIGPIPE, SIG_IGN);
    watch_calls(plan);
  }
  void turns() {
    for (int i = 0; i < 8; ++i) loop.run_once(std::chrono::milliseconds(0));
  }
  // `act` with each of its calls failed in turn, and after each once more without: `works` then.
  template <typename Act>
  void fail_each(Act act) {
    int fired = 0;
    ASSERT_TRUE(act());
    for (int n = 1;; ++n) {
      SCOPED_TRACE("call " + std::to_string(n) + ": " + sys::errno_text(GetParam()));
      arm(n, GetParam());
      bool worked = false;
      ASSERT_NO_THROW(worked = act());
      const bool happened = disarm();
      EXPECT_TRUE(worked || (happened && GetParam() != EINTR));
      ASSERT_TRUE(act()) << "and then it works";
      if (!happened) break;
      ++fired;
    }
    std::printf("%d calls failed\n", fired);
  }

  loop::Loop loop;
};

TEST_P(MonitorFaults, OfAStreamEndThatStream) {
  const memory::GuestMemory memory = memory::GuestMemory::create(VsockGuest::kMemory);
  HostStreams streams(loop, [](HostStreams::Token, uint32_t) {});
  virtio::Vsock device({.guest_cid = VsockGuest::kCid, .stream_buffer = 64 << 10}, streams);
  DeviceSlot slot(memory, device, {0x1000'0000}, 5, [](uint32_t) {});
  VsockGuest guest(memory, device);
  streams.attach(slot, device);
  guest.post(256);
  uint32_t guest_port = 100;
  // A host program and the guest greet each other, and part.
  fail_each([&] {
    ++guest_port;
    auto [ours, theirs] = make_pair();
    streams.connect(std::move(theirs), guest_port, true);
    std::string to_guest;
    uint32_t host_port = 0;
    const auto take = [&] {
      turns();
      for (const Packet& packet : guest.received()) {
        host_port = packet.header.source_port;
        to_guest += packet.payload;
      }
      guest.post(256);
      streams.handle_events();
    };
    take();
    const auto answer = [&](VsockOp op) {
      guest.send(guest.header(guest_port, host_port, op));
      streams.handle_events();
      take();
    };
    answer(VsockOp::Response);
    guest.send_data(guest_port, host_port, "hello");
    streams.handle_events();
    take();
    const std::string heard = read_all(ours);
    say(ours, "world");
    take();
    ours.reset();
    take();
    answer(VsockOp::Reset);
    EXPECT_EQ(device.stream_count(), 0U);
    return heard.ends_with("hello") && to_guest == "world";
  });
}

class Nowhere : public virtio::ConsoleSink {
 public:
  void write(ByteView) noexcept override {}
};

TEST_P(MonitorFaults, OfAClientAtTheConsoleSendItAway) {
  const memory::GuestMemory memory = memory::GuestMemory::create(1 << 20);
  Nowhere nowhere;
  virtio::Console console(nowhere);
  DeviceSlot slot(memory, console, {0xd000'0000}, 5, [](uint32_t) {});
  ConsoleClient client(loop, console);
  client.attach(slot);
  fail_each([&] {
    console.reset();
    auto [ours, theirs] = make_pair();
    client.connect(std::move(theirs));
    client.write(as_bytes("login: "));
    turns();
    say(ours, "root\n");
    turns();
    const bool typed = console.input_space() == virtio::Console::kInputCapacity - 5;
    const bool shown = read_all(ours) == "login: ";
    ours.reset();
    client.write(as_bytes("to nobody"));
    turns();
    return typed && shown;
  });
}

TEST_P(MonitorFaults, OfTheConsolesLogLoseOutputAlone) {
  const sys::TempDir folder;
  monitor::ConsoleLog log(sys::open_file(folder.path() + "/log", O_RDWR | O_CREAT));
  fail_each([&] {
    log.write(as_bytes("a line\n"));
    return aside([&] { return sys::read_text_file(folder.path() + "/log", 1 << 20); })
        .ends_with("a line\n");
  });
}

INSTANTIATE_TEST_SUITE_P(Every, MonitorFaults, testing::Values(ENOSPC, EMFILE, ENOMEM, EINTR),
                         error_name);

}
