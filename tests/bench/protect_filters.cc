// What looking into an exchange costs (protection.h), without the sockets: prints figures as JSON.
//   protect_filters SCALE     0: each loop once, to see that it works
// On standard error: microseconds of one exchange, a request of 1 KiB of JSON with a secret and
//   personal data in it and an answer that says it all back, through all filters.
// sse_delay: milliseconds that an event of a model's answer waits, the median, where events come
//   each 20 ms and a token now and then in pieces.
// memory: MiB by which the process grows over one body of 1 GiB of JSON that comes back.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "../../src/egress/filters.h"
#include "protection.h"

using namespace mvm;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* kHost = "ai.example";

http::RequestHead request(std::string type, const std::string& key) {
  http::RequestHead head;
  head.method = "POST";
  head.target = "/v1/chat/completions";
  head.headers = {{"Content-Type", std::move(type)},
                  {"Accept", "application/json"},
                  {"Authorization", "Bearer " + key},
                  {"User-Agent", "client/1.2.3"},
                  {"Accept-Encoding", "gzip, deflate"}};
  head.framing = {http::BodyKind::Chunked, 0};
  return head;
}
// `key`: what the server saw as one, and says.
http::ResponseHead response(std::string type, const std::string& key) {
  http::ResponseHead head;
  head.status = 200;
  head.headers = {{"Content-Type", std::move(type)},
                  {"Date", "Mon, 01 Jan 2024 00:00:00 GMT"},
                  {"Server", "example"},
                  {"X-Key", key},
                  {"X-Request-Id", "req_011CSHoEeqs5C35K2UUqR7Fy"}};
  head.framing = {http::BodyKind::Chunked, 0};
  return head;
}

void check(const egress::FilterVerdict& verdict) {
  if (!verdict) return;
  std::fprintf(stderr, "refused: %s\n", verdict->answer.message.c_str());
  std::exit(1);
}

std::string document() {
  std::string text =
      R"({"model":"m-1","max_tokens":1024,"messages":[{"role":"system","content":"You are a helpful )"
      R"(assistant that answers questions about orders."},{"role":"user","content":"Please write to )"
      R"(jane.doe@example.com, or call +1 415-555-2671, about order 12345678."},{"role":"assistant",)"
      R"("content":"Which card was it paid with?"},{"role":"user","content":"4111 1111 1111 1111, )"
      R"(and the second half of it by transfer from DE89370400440532013000."}],"metadata":{"pad":")";
  while (text.size() < 1018) text += "lorem ipsum ";
  return text + R"("}})";
}
// What a model answers who says everything back.
constexpr std::string_view kUsage =
    R"({"model":"m-1","usage":{"prompt_tokens":210,"completion_tokens":12,"total_tokens":222},"said":)";

double median(std::vector<double>& of) {
  const auto middle = of.begin() + static_cast<ptrdiff_t>(of.size() / 2);
  std::ranges::nth_element(of, middle);
  return *middle;
}

double exchange(const bench::Protection& protection, size_t rounds) {
  const std::string body = document();
  egress::Commit commit(protection.commit());
  std::vector<double> took;
  for (size_t i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    egress::Filters filters(protection.sources(), {1, i, kHost, 443, true}, commit);
    auto head = request("application/json", protection.placeholder());
    check(filters.request_head(head));
    filters.collect();
    const std::string key = head.headers[2].value;
    Bytes sent;
    check(filters.request_body(as_bytes(body), true, sent));
    filters.request_left();
    commit.after();
    auto answer = response("application/json", key);
    check(filters.response_head(answer));
    Bytes said(as_bytes(kUsage).begin(), as_bytes(kUsage).end());
    said.insert(said.end(), sent.begin(), sent.end());
    said.push_back(std::byte{'}'});
    Bytes got;
    check(filters.response_body(said, true, got));
    filters.end(true);
    took.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    // What it is for: the value left and did not come back, the data did not leave and came back.
    if (as_text(got) != std::string(kUsage) + body + "}" ||
        as_text(sent).find("jane.doe") != std::string_view::npos ||
        key.find(bench::Protection::kSecret) == std::string::npos ||
        answer.headers[3].value.find(protection.placeholder()) == std::string::npos)
      std::exit(1);
  }
  return median(took);
}

double sse_delay(const bench::Protection& protection, size_t events) {
  constexpr double kInterval = 20;  // milliseconds between events
  egress::Commit commit(protection.commit());
  egress::Filters filters(protection.sources(), {1, 0, kHost, 443, true}, commit);
  auto head = request("text/plain", protection.placeholder());
  check(filters.request_head(head));
  Bytes sent;
  check(filters.request_body(as_bytes("jane.doe@example.com"), true, sent));
  auto answer = response("text/event-stream", "");
  check(filters.response_head(answer));
  std::string said;
  while (said.size() < events * 4)
    said += "words of an answer, and then some more of them before it names " +
            std::string(as_text(sent)) + ", to whom it may concern. ";
  std::vector<double> delays;
  size_t given = 0;
  std::string all;
  for (size_t i = 0; i < events; ++i) {
    const std::string event =
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"text\":\"" +
        said.substr(4 * i, 4) + "\"}}\n\n";
    const auto begin = Clock::now();
    Bytes out;
    check(filters.response_body(as_bytes(event), i + 1 == events, out));
    const double took = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    all += as_text(out);
    size_t now = 0;
    for (size_t at = all.find("\n\n"); at != std::string::npos; at = all.find("\n\n", at + 2))
      ++now;
    all.erase(0, all.rfind("\n\n") == std::string::npos ? 0 : all.rfind("\n\n") + 2);
    for (; now > 0; --now, ++given)
      delays.push_back(static_cast<double>(i - given) * kInterval + took);
  }
  if (delays.size() != events) std::exit(1);
  return median(delays);
}

double resident() {
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double pages = 0;
  file >> size >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// One request of so many bytes, which comes back as it was sent.
double memory(const bench::Protection& protection, size_t bytes) {
  const double before = resident();
  double most = before;
  std::string piece = R"({"role":"user","content":"jane.doe@example.com, +1 415-555-2671, )"
                      R"(4111 1111 1111 1111; )";
  while (piece.size() < 1000) piece += "lorem ipsum ";
  piece += "\"},\n";
  const std::string message = piece;
  while (piece.size() + message.size() <= egress::ExchangeFilter::kMaxPiece) piece += message;
  egress::Commit commit(protection.commit());
  egress::Filters filters(protection.sources(), {1, 0, kHost, 443, true}, commit);
  auto head = request("application/json", protection.placeholder());
  check(filters.request_head(head));
  auto answer = response("application/json", head.headers[2].value);
  bool answering = false;
  const auto pass = [&](std::string_view text, bool last) {
    Bytes sent;
    check(filters.request_body(as_bytes(text), last, sent));
    if (!std::exchange(answering, true)) check(filters.response_head(answer));
    Bytes got;
    check(filters.response_body(sent, last, got));
    most = std::max(most, resident());
    return got.size();
  };
  size_t came = pass(R"({"model":"m-1","messages":[)", false);
  for (size_t done = 0; done < bytes; done += piece.size()) came += pass(piece, false);
  came += pass(R"({}]})", true);
  filters.end(true);
  if (came < bytes) std::exit(1);
  return most - before;
}

}

int main(int argc, char** argv) {
  const double scale = argc > 1 ? std::strtod(argv[1], nullptr) : 1;
  const auto times = [scale](double count) {
    return static_cast<size_t>(std::max(100.0, count * scale));
  };
  std::string directory = "/tmp/mvm-bench-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  {
    const bench::Protection protection(kHost, directory);
    std::fprintf(stderr, "filters of an exchange: %.2f us\n", exchange(protection, times(20000)));
    std::printf("{\"protect.sse_delay\": %.4f, ", sse_delay(protection, times(20000)));
    std::printf("\"protect.memory\": %.2f}\n",
                memory(protection, times(static_cast<double>(1 << 30))));
  }
  std::filesystem::remove_all(directory);
  return 0;
}
