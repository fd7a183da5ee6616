// Exchanges as with a model, of 1 KiB of JSON each way, over HTTPS.
//
//   egress_exchange serve ADDRESS:PORT CERTIFICATE KEY     says what it was asked back, and what
//   that used egress_exchange take ADDRESS:PORT AUTHORITY CREDENTIAL COUNT HOST...
//     in turns with each host, on a connection of its own; prints the median of each, in
//     microseconds
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "https_client.h"

namespace {

using namespace mvm::bench;

// Three addresses of a person, a card and an account, as a model might be sent them.
std::string document() {
  std::string pad;
  for (int i = 0; i < 48; ++i) pad += "lorem ipsum ";
  std::string text =
      R"({"model":"m-1","max_tokens":1024,"messages":[)"
      R"({"role":"system","content":"You are a helpful assistant that answers questions about orders."},)"
      R"({"role":"user","content":"Please write to jane.doe@example.com, or call +1 415-555-2671, about order 12345678."},)"
      R"({"role":"assistant","content":"Which card was it paid with?"},)"
      R"({"role":"user","content":"4111 1111 1111 1111, and the second half of it by transfer from DE89370400440532013000."}],)"
      R"("metadata":{"pad":")" +
      pad + R"("}})";
  text.resize(std::max<size_t>(text.size(), 1024), ' ');
  return text;
}

std::string_view field(std::string_view head, std::string_view name) {
  const size_t at = head.find("\r\n" + std::string(name) + ": ");
  if (at == head.npos) fail("a message without " + std::string(name));
  const size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

void answer_all(SSL* ssl) {
  std::vector<char> buffer(64 * 1024);
  size_t have = 0, got = 0;
  while (SSL_read_ex(ssl, buffer.data() + have, buffer.size() - have, &got) == 1) {
    have += got;
    const std::string_view all(buffer.data(), have);
    const size_t end = all.find("\r\n\r\n");
    if (end == all.npos) continue;
    const std::string_view head = all.substr(0, end + 2);
    const size_t length = std::strtoull(field(head, "content-length").data(), nullptr, 10);
    if (have < end + 4 + length) continue;
    const std::string body =
        R"({"model":"m-1","usage":{"prompt_tokens":210,"completion_tokens":12,"total_tokens":222},"said":)" +
        std::string(all.substr(end + 4, length)) + "}";
    const std::string answer =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " +
        std::to_string(body.size()) + "\r\nx-key: " + std::string(field(head, "authorization")) +
        "\r\n\r\n" + body;
    if (SSL_write_ex(ssl, answer.data(), answer.size(), &got) != 1) return;
    have = 0;
  }
}

int serve(const std::string& place, const std::string& certificate, const std::string& key) {
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    fail("no certificate in " + certificate);
  const sockaddr_in at = parse(place);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  need(::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0, "bind");
  need(::listen(listener, 64) == 0, "listen");
  while (true) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::thread([context, fd] {
      SSL* ssl = SSL_new(context);
      SSL_set_fd(ssl, fd);
      if (SSL_accept(ssl) == 1) answer_all(ssl);
      SSL_free(ssl);
      ::close(fd);
    }).detach();
  }
}

struct Host {
  Https connection;
  std::string request;
  std::vector<double> took;
};

int take(const std::string& place, const std::string& authority, const std::string& key, long count,
         const std::vector<std::string>& names) {
  SSL_CTX* context = client_context(authority);
  const std::string said = document();
  std::vector<std::unique_ptr<Host>> hosts;
  for (const std::string& name : names)
    hosts.push_back(std::unique_ptr<Host>(new Host{
        {context, place, name, ""},
        "POST /v1/chat/completions HTTP/1.1\r\nhost: " + name +
            "\r\ncontent-type: application/json\r\ncontent-length: " + std::to_string(said.size()) +
            "\r\nauthorization: Bearer " + key + "\r\n\r\n" + said,
        {}}));
  for (long i = -200; i < count; ++i)
    for (const auto& host : hosts) {
      const auto begin = std::chrono::steady_clock::now();
      const std::string_view answer = host->connection.exchange(host->request);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      // Whatever became of it on its way, here it is as it was.
      if (answer.find(said) == answer.npos || field(answer, "x-key") != "Bearer " + key)
        fail("not what was said: " + std::string(answer));
      if (i >= 0) host->took.push_back(took.count());
    }
  for (const auto& host : hosts) {
    std::nth_element(host->took.begin(), host->took.begin() + count / 2, host->took.end());
    std::printf("%.2f\n", host->took.at(static_cast<size_t>(count / 2)));
  }
  return 0;
}

}

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.at(0) == "serve") return serve(words.at(1), words.at(2), words.at(3));
    return take(words.at(1), words.at(2), words.at(3),
                std::strtol(words.at(4).c_str(), nullptr, 10), {words.begin() + 5, words.end()});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "egress_exchange: %s\n", error.what());
    return 1;
  }
}
