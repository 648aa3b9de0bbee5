// The service: JSON in, JSON out; what it refuses is a Refusal with its own words.

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || "the service refused this");
    this.status = status;
    this.problem = problem;
  }
}

export async function ask(path, body = undefined, headers = {}, method = body === undefined ? "GET" : "POST") {
  const answer = await fetch(`v1/${path}`, {
    method,
    headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
  });
  if (!answer.ok) throw new Refusal(answer.status, await answer.json().catch(() => ({})));
  return method === "HEAD" ? answer : answer.json();
}
