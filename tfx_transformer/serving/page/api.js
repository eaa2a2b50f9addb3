// Requests to the server: JSON in, JSON out, errors in words.

let token = sessionStorage.getItem("token") ?? "";

export class AccessError extends Error {}

export function setToken(value) {
  token = value;
  sessionStorage.setItem("token", value);
}

/** The response to GET, or to POST if there is a body; throws an Error with a message in words. */
export async function send(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = { headers, signal };
  if (body) {
    headers["Content-Type"] = "application/json";
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached.");
  }
  if (response.ok) return response;
  if (response.status === 401) throw new AccessError("This server asks for a token.");
  throw new Error(await describe(response));
}

export async function sendJson(path, body, signal) {
  const answer = await (await send(path, body, signal)).json();
  signal?.throwIfAborted();
  return answer;
}

async function describe(response) {
  if (response.status === 429) return "The server is busy. Please try again in a moment.";
  const text = await response.text();
  try {
    const { error, detail } = JSON.parse(text);
    return String(error?.message ?? error ?? detail ?? response.statusText);
  } catch {
    return `The server answered ${response.status} ${response.statusText}.`;
  }
}
